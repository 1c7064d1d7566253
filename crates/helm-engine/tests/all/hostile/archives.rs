//! Archives: decompression bombs, path traversal, entries that are not files.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use helm_template::profile::Profile;

use super::{Attack, AttackChart, CHART_YAML, HostileCase};

/// Type, name, link target, size stated in the header, content.
struct ArchiveEntry<'e> {
    kind: u8,
    name: &'e str,
    link: &'e str,
    size: u64,
    content: &'e [u8],
}

fn file<'e>(name: &'e str, content: &'e [u8]) -> ArchiveEntry<'e> {
    ArchiveEntry { kind: b'0', name, link: "", size: content.len() as u64, content }
}

fn header(entry: &ArchiveEntry<'_>) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, entry.name);
    put(100, "0000644\0");
    put(124, &format!("{:011o}\0", entry.size));
    put(136, "00000000000\0");
    put(148, "        ");
    put(157, entry.link);
    put(257, "ustar\0");
    block[156] = entry.kind;
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn append(zip: &mut GzEncoder<Vec<u8>>, entry: &ArchiveEntry<'_>) {
    zip.write_all(&header(entry)).unwrap();
    zip.write_all(entry.content).unwrap();
    let padding = entry.content.len().next_multiple_of(512) - entry.content.len();
    zip.write_all(&[0; 512][..padding]).unwrap();
}

fn packed(fill: impl FnOnce(&mut GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::new(6));
    append(&mut zip, &file("evil/Chart.yaml", CHART_YAML.as_bytes()));
    fill(&mut zip);
    zip.write_all(&[0; 1024]).unwrap();
    zip.finish().unwrap()
}

fn attack(archive: Vec<u8>) -> Attack {
    Attack { chart: AttackChart::Archive(archive), sources: Vec::new(), profile: Profile::Helm3 }
}

/// An archive with the chart and this entry.
fn archive_with_entry(kind: u8, name: &'static str, link: &'static str, content: &'static [u8]) -> Attack {
    let size = content.len() as u64;
    attack(packed(|zip| append(zip, &ArchiveEntry { kind, name, link, size, content })))
}

fn member(bytes: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::new(6));
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap()
}

/// Zeros of this many mebibytes, in files of four. A gzip file can have several members, and repeated content is
/// packed once.
fn zeros(mebibytes: usize) -> Vec<u8> {
    let content = vec![0; 4 << 20];
    let packed = member(&content);
    let mut archive = member(&header(&file("evil/Chart.yaml", b"")));
    for n in 0..mebibytes / 4 {
        let name = format!("evil/{n}");
        archive.extend(member(&header(&file(&name, &content))));
        archive.extend(&packed);
    }
    archive
}

pub fn cases() -> Vec<HostileCase> {
    let mut cases = vec![
        HostileCase::new(
            "archive: a file of a gigabyte",
            &["decompressed chart is larger than the maximum"],
            || {
                let big = ArchiveEntry {
                    kind: b'0',
                    name: "evil/big",
                    link: "",
                    size: 1 << 30,
                    content: &[0; 1 << 20],
                };
                attack(packed(|zip| append(zip, &big)))
            },
        ),
        HostileCase::new("archive: a gigabyte in files", &["unpacks to more than 100 times"], || {
            attack(zeros(1 << 10))
        }),
        HostileCase::new("archive: with Helm 4", &["unpacks to more than 100 times"], || Attack {
            profile: Profile::Helm4,
            ..attack(zeros(256))
        }),
        HostileCase::new("archive: in an archive", &["subchart", "unpacks to more than 100 times"], || {
            let inner = zeros(256);
            attack(packed(|zip| append(zip, &file("evil/charts/sub-1.0.0.tgz", &inner))))
        }),
        HostileCase::new(
            "archive: one in the other",
            &["charts lie more than 32 deep in each other"],
            || {
                let mut archive = packed(|_| ());
                for _ in 0..40 {
                    archive = packed(|zip| append(zip, &file("evil/charts/evil-1.0.0.tgz", &archive)));
                }
                attack(archive)
            },
        ),
        HostileCase::new(
            "archive: a million entries",
            &["chart archive has more than 100000 entries"],
            || {
                let mut headers = Vec::new();
                (0..1_000).for_each(|n| {
                    headers.extend(header(&ArchiveEntry { kind: b'5', ..file(&format!("evil/{n}/"), b"") }));
                });
                attack(member(&headers).repeat(1_000))
            },
        ),
        HostileCase::new("archive: cut off", &["unexpected EOF"], || {
            let mut archive = packed(|zip| append(zip, &file("evil/a", &[7; 100_000])));
            archive.truncate(archive.len() / 2);
            attack(archive)
        }),
        HostileCase::new("archive: two of one name", &["two files named \"values.yaml\""], || {
            attack(packed(|zip| {
                append(zip, &file("evil/values.yaml", b"a: 1"));
                append(zip, &file("evil/values.yaml", b"a: 2"));
            }))
        }),
    ];
    let rows: [(&str, u8, &'static str, &'static str, &str); 12] = [
        ("up", b'0', "evil/../../etc/passwd", "", "illegally references parent directory"),
        ("up at once", b'0', "../evil/x", "", "illegally references parent directory"),
        ("absolute", b'0', "/etc/passwd", "", "illegally contains absolute paths"),
        ("absolute inside", b'0', "evil//etc/passwd", "", "illegally contains absolute paths"),
        ("other slashes", b'0', "evil\\..\\..\\x", "", "illegally references parent directory"),
        ("drive", b'0', "evil/c:/x", "", "illegally named files"),
        ("link out", b'2', "evil/values.yaml", "/etc/passwd", "is a link to \"/etc/passwd\""),
        ("link up", b'2', "evil/a/b", "../../../x", "is a link to \"../../../x\""),
        ("hard link out", b'1', "evil/b", "other/x", "is a link to \"other/x\""),
        ("character device", b'3', "evil/zero", "", "\"zero\" is a character device"),
        ("block device", b'4', "evil/sda", "", "\"sda\" is a block device"),
        ("pipe", b'6', "evil/pipe", "", "\"pipe\" is a named pipe"),
    ];
    for (name, kind, entry, link, said) in rows {
        cases.push(HostileCase::new(&format!("archive: {name}"), &[said], move || {
            archive_with_entry(kind, entry, link, b"")
        }));
    }
    cases
}
