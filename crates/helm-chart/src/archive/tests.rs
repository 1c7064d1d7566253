//! Valid and invalid archives. Expected results were recorded from Helm 3.17.3; rows marked as ours are archives that
//! Helm accepts.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use helm_template::profile::Profile;
use proptest::prelude::*;

use super::write::HeaderBlock;
use super::{ArchiveLimits, read_files};

const CHART: (u8, &str, &str, &[u8]) =
    (b'0', "c/Chart.yaml", "", b"apiVersion: v2\nname: c\nversion: 1.0.0\n");

/// Type, name, link target, content.
type EntryRow<'a> = (u8, &'a str, &'a str, &'a [u8]);

fn tar(entries: &[EntryRow]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (kind, name, link, data) in entries {
        let header =
            HeaderBlock { kind: *kind, name, link, prefix: "", mode: 0o644, size: data.len(), modified: 0 };
        tar.extend(header.bytes().unwrap());
        tar.extend(*data);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::new(6));
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap()
}

fn read(archive: &[u8]) -> Result<Vec<String>, String> {
    let files = read_files(archive, Profile::Helm3, &mut ArchiveLimits::for_profile(Profile::Helm3))
        .map_err(|error| error.to_string())?;
    Ok(files.iter().map(|file| file.name.to_string()).collect())
}

#[test]
fn archive_accepts_or_rejects_names_like_helm() {
    let refused = |text: &str| Err(text.to_owned());
    let taken = |name: &str| Ok(vec!["Chart.yaml".to_owned(), name.to_owned()]);
    let outside =
        |name| refused(&format!("chart illegally contains content outside the base directory: \"{name}\""));
    let parent = "chart illegally references parent directory";
    let absolute = "chart illegally contains absolute paths";
    let drive = "chart contains illegally named files";
    let rows: [(EntryRow, _); 23] = [
        ((b'0', "c/a", "", b""), taken("a")),
        ((0, "c/a", "", b"x"), taken("a")),
        ((b'7', "c/a", "", b"x"), taken("a")),
        ((b'0', "c/a/../b", "", b"x"), taken("b")),
        ((b'0', "c\\templates\\a.yaml", "", b"x"), taken("templates/a.yaml")),
        ((b'0', "c", "", b""), outside("c")),
        ((b'0', "c/.", "", b""), outside("c/.")),
        ((b'0', "c//etc/passwd", "", b""), refused(absolute)),
        ((b'0', "c/../../x", "", b""), refused(parent)),
        ((b'0', "c/..a", "", b""), refused(parent)),
        ((b'0', "c/c:/x", "", b""), refused(drive)),
        ((b'0', "c\\d:\\x", "", b""), refused(drive)),
        ((b'0', "Chart.yaml/a", "", b""), refused("chart yaml not in base directory")),
        // A link within the chart is an empty file.
        ((b'2', "c/a", "Chart.yaml", b""), taken("a")),
        ((b'1', "c/a", "c/Chart.yaml", b""), taken("a")),
        // Rejected by us, accepted by Helm.
        ((b'0', "/etc/passwd", "", b""), refused(absolute)),
        ((b'0', "../x", "", b""), refused(parent)),
        (
            (b'2', "c/a", "/etc/passwd", b""),
            refused("chart file \"a\" is a link to \"/etc/passwd\", which is outside of the chart"),
        ),
        (
            (b'2', "c/a/b", "../../x", b""),
            refused("chart file \"a/b\" is a link to \"../../x\", which is outside of the chart"),
        ),
        ((b'3', "c/a", "", b""), refused("chart file \"a\" is a character device")),
        ((b'4', "c/a", "", b""), refused("chart file \"a\" is a block device")),
        ((b'6', "c/a", "", b""), refused("chart file \"a\" is a named pipe")),
        ((b'0', "c/Chart.yaml", "", b""), refused("chart illegally contains two files named \"Chart.yaml\"")),
    ];
    for (entry, expected) in rows {
        assert_eq!(read(&gzip(&tar(&[CHART, entry]))), expected, "{entry:?}");
    }
}

#[test]
fn archive_skips_entries_that_are_not_files() {
    let entries: [EntryRow; 4] = [
        (b'g', "pax_global_header", "", b"11 foo=bar\n"),
        (b'5', "c/a/", "", b""),
        (0, "c/b/", "", b""),
        CHART,
    ];
    assert_eq!(read(&gzip(&tar(&entries))), Ok(vec!["Chart.yaml".to_owned()]));
}

#[test]
fn archive_reads_long_names_from_extended_headers() {
    let long = format!("c/{}", "x".repeat(300));
    let record = format!("312 path={long}\n");
    for (kind, content) in [(b'x', record.as_bytes()), (b'L', long.as_bytes())] {
        let entries: [EntryRow; 2] = [(kind, "long", "", content), (b'0', "c/short", "", b"x")];
        assert_eq!(read(&gzip(&tar(&entries))), Ok(vec![long[2..].to_owned()]));
    }
    for broken in ["312 path=c/short\n", "x path=a\n", "5 =a\n", "12 path=c/\0a\n"] {
        let entries: [EntryRow; 2] = [(b'x', "long", "", broken.as_bytes()), CHART];
        assert_eq!(
            read(&gzip(&tar(&entries))),
            Err("archive/tar: invalid tar header".to_owned()),
            "{broken}"
        );
    }
}

#[test]
fn corrupt_archives_are_rejected_like_helm() {
    let whole = tar(&[CHART]);
    let packed = gzip(&whole);
    let changed = |at: usize, to: &[u8]| [&packed[..at], to, &packed[at + to.len()..]].concat();
    let taken = || Ok(vec!["Chart.yaml".to_owned()]);
    let refused = |text: &str| Err(text.to_owned());
    let rows = [
        ("whole", packed.clone(), taken()),
        ("text", b"hello world, this is no archive".to_vec(), refused("gzip: invalid header")),
        ("another method", changed(2, &[9]), refused("gzip: invalid header")),
        ("nothing", Vec::new(), refused("unexpected EOF")),
        ("five bytes", packed[..5].to_vec(), refused("unexpected EOF")),
        ("cut", packed[..packed.len() - 40].to_vec(), refused("unexpected EOF")),
        ("without its checksum", packed[..packed.len() - 8].to_vec(), taken()),
        ("with another checksum", changed(packed.len() - 8, &[0; 8]), taken()),
        ("with more behind it", [&packed[..], b"junk"].concat(), taken()),
        ("two members", [gzip(&whole[..700]), gzip(&whole[700..])].concat(), taken()),
        ("first member damaged", [&changed(packed.len() - 8, &[0; 8])[..], &gzip(b"x")].concat(), taken()),
        ("no tar", gzip(&[b'x'; 2000]), refused("archive/tar: invalid tar header")),
        ("empty tar", gzip(&tar(&[])), refused("no files in chart archive")),
        ("cut header", gzip(&whole[..300]), refused("unexpected EOF")),
        ("cut content", gzip(&whole[..520]), refused("unexpected EOF")),
        ("cut padding", gzip(&whole[..700]), taken()),
        ("without its end", gzip(&whole[..1024]), taken()),
        (
            "junk after one empty block",
            gzip(&[&whole[..1536], &[b'x'; 512]].concat()),
            refused("archive/tar: invalid tar header"),
        ),
    ];
    for (what, archive, expected) in rows {
        assert_eq!(read(&archive), expected, "{what}");
    }
}

#[test]
fn header_with_wrong_checksum_is_rejected() {
    let mut whole = tar(&[CHART]);
    whole[0] = b'd';
    assert_eq!(read(&gzip(&whole)), Err("archive/tar: invalid tar header".to_owned()));
}

#[test]
fn byte_order_mark_is_stripped() {
    let archive = gzip(&tar(&[(b'0', "c/a", "", b"\xef\xbb\xbfx")]));
    let files =
        read_files(&archive, Profile::Helm4, &mut ArchiveLimits::for_profile(Profile::Helm4)).unwrap();
    assert_eq!(&files[0].data[..], b"x");
}

#[test]
fn bomb_is_rejected_at_its_header() {
    // States a gigabyte; only the header is unpacked, the content is missing.
    let header = HeaderBlock {
        kind: b'0',
        name: "c/a",
        link: "",
        prefix: "",
        mode: 0o644,
        size: 1 << 30,
        modified: 0,
    };
    let bomb = gzip(&header.bytes().unwrap());
    let said = |profile| {
        read_files(&bomb, profile, &mut ArchiveLimits::for_profile(profile)).unwrap_err().to_string()
    };
    assert_eq!(said(Profile::Helm3), "decompressed chart is larger than the maximum file size 104857600");
    assert_eq!(said(Profile::Helm4), "decompressed chart is larger than the maximum size 104857600");
    let large = HeaderBlock { size: 6 << 20, ..header };
    let large = gzip(&[&large.bytes().unwrap()[..], &vec![0; 6 << 20]].concat());
    assert_eq!(
        read(&large),
        Err("decompressed chart file \"c/a\" is larger than the maximum file size 5242880".into())
    );
    assert!(read_files(&large, Profile::Helm4, &mut ArchiveLimits::for_profile(Profile::Helm4)).is_ok());
}

#[test]
fn unpacked_limit_covers_all_files() {
    let names: Vec<String> = (0..40).map(|n| format!("c/{n}")).collect();
    let entries: Vec<EntryRow> = names.iter().map(|name| (b'0', name.as_str(), "", &[0; 1000][..])).collect();
    let archive = gzip(&tar(&entries));
    let small = |limits: ArchiveLimits| {
        read_files(&archive, Profile::Helm3, &mut limits.clone()).map_err(|error| error.to_string())
    };
    let limits = ArchiveLimits::for_profile(Profile::Helm3);
    assert!(small(ArchiveLimits { unpacked: 40_001, entries: 40, packed: archive.len(), ..limits }).is_ok());
    let larger = small(ArchiveLimits { unpacked: 40_000, ..limits });
    assert_eq!(larger, Err("decompressed chart is larger than the maximum file size 104857600".into()));
    assert!(
        small(ArchiveLimits { entries: 39, ..limits })
            .unwrap_err()
            .starts_with("chart archive has more than")
    );
    assert!(small(ArchiveLimits { packed: archive.len() - 1, ..limits }).unwrap_err().contains("larger"));
}

#[test]
fn archive_rejects_too_many_entries() {
    // Entries that are not files count too: a stream of headers only.
    let folder: EntryRow = (b'5', "c/a/", "", b"");
    let archive = gzip(&tar(&vec![folder; 2000]));
    let mut limits = ArchiveLimits { unpacked: 1000, ..ArchiveLimits::for_profile(Profile::Helm3) };
    assert!(read_files(&archive, Profile::Helm3, &mut limits).is_err());
    let mut limits = ArchiveLimits { entries: 1999, ..ArchiveLimits::for_profile(Profile::Helm3) };
    let error = read_files(&archive, Profile::Helm3, &mut limits).unwrap_err();
    assert!(error.to_string().starts_with("chart archive has more than"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read(&bytes);
        let _ = read(&gzip(&bytes));
    }

    #[test]
    fn no_change_to_an_archive_is_too_strange(at in 0..1536usize, byte: u8, cut in 0..2560usize) {
        let mut whole = tar(&[(b'x', "long", "", b"12 path=c/a\n"), CHART]);
        whole[at] = byte;
        whole.truncate(cut);
        let _ = read(&gzip(&whole));
    }
}
