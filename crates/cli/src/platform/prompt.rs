//! Terminal prompts, and secrets from standard input.
//!
//! A secret is never an argument, because arguments appear in the shell's history and in process lists.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::PlatformError;
use super::secret::Secret;

/// Maximum length of an input.
const MAX_INPUT_LEN: u64 = 64 << 10;
/// Ctrl-C.
const CTRL_C: u8 = 3;

/// A terminal for prompts.
pub trait Terminal {
    fn prompt(&self, question: &str) -> Result<String, PlatformError>;
    /// Prompts without echo.
    fn prompt_secret(&self, question: &str) -> Result<Secret, PlatformError>;
}

/// The controlling terminal of this process, independent of standard input.
pub struct Tty;

impl Terminal for Tty {
    fn prompt(&self, question: &str) -> Result<String, PlatformError> {
        read_line(&open()?, question)
    }

    fn prompt_secret(&self, question: &str) -> Result<Secret, PlatformError> {
        read_without_echo(&open()?, question)
    }
}

fn open() -> Result<File, PlatformError> {
    File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        let why = "no terminal for prompts: give --account, and --password-stdin or --token-stdin";
        PlatformError::Usage(why.to_owned())
    })
}

fn read_without_echo(mut tty: &File, question: &str) -> Result<Secret, PlatformError> {
    let silence = EchoGuard::disable_echo(tty).map_err(|error| PlatformError::Terminal(error.into()))?;
    let answer = read_line(tty, question);
    drop(silence);
    // The user's newline was not echoed either.
    tty.write_all(b"\n").map_err(PlatformError::Terminal)?;
    answer.map(Secret::new)
}

fn read_line(mut tty: &File, question: &str) -> Result<String, PlatformError> {
    write!(tty, "{question}: ").map_err(PlatformError::Terminal)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(tty).take(MAX_INPUT_LEN);
    // Without echo, Ctrl-C arrives as a character and ends the line.
    loop {
        let seen = reader.fill_buf().map_err(PlatformError::Terminal)?;
        let (length, last) = (seen.len(), seen.last().copied());
        line.extend_from_slice(seen);
        reader.consume(length);
        match last {
            Some(b'\n') => break,
            None | Some(CTRL_C) => return Err(PlatformError::Interrupted),
            Some(_) => {}
        }
    }
    String::from_utf8(line)
        .map(trim_newline)
        .map_err(|_| PlatformError::Usage("the input is not UTF-8".to_owned()))
}

/// Disables echo until dropped. Ctrl-C arrives as a character, so that the terminal's mode can be restored.
struct EchoGuard<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> EchoGuard<'a> {
    fn disable_echo(tty: &'a File) -> rustix::io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        tcsetattr(tty, OptionalActions::Flush, &silent)?;
        Ok(Self { tty, before })
    }
}

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(self.tty, OptionalActions::Flush, &self.before);
    }
}

/// Reads a secret from standard input, without the final newline.
pub fn read_secret(input: &mut dyn Read) -> Result<Secret, PlatformError> {
    let mut text = String::new();
    input.take(MAX_INPUT_LEN).read_to_string(&mut text).map_err(PlatformError::Stdin)?;
    let text = trim_newline(text);
    if text.is_empty() {
        return Err(PlatformError::Stdin(io::Error::other("it is empty")));
    }
    Ok(Secret::new(text))
}

fn trim_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::thread;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Prompts for a secret on a pseudo-terminal with this input. Returns the result, the screen, and whether the
    /// terminal's mode was restored.
    fn prompt_on_pty(typed: &[u8]) -> (Result<Secret, PlatformError>, String, bool) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let tty = File::options().read(true).write(true).open(path).unwrap();
        let before = tcgetattr(&tty).unwrap();
        let mut ours = File::from(ours);
        let (answer, screen) = thread::scope(|scope| {
            let answer = scope.spawn(|| read_without_echo(&tty, "password"));
            let mut screen = Vec::new();
            let mut read = |until: &str, ours: &mut File| {
                while !String::from_utf8_lossy(&screen).ends_with(until) {
                    let mut byte = [0];
                    ours.read_exact(&mut byte).unwrap();
                    screen.push(byte[0]);
                }
            };
            read("password: ", &mut ours);
            ours.write_all(typed).unwrap();
            read("\n", &mut ours);
            (answer.join().unwrap(), String::from_utf8(screen).unwrap())
        });
        let after = tcgetattr(&tty).unwrap();
        let restored = after.local_modes == before.local_modes
            && after.special_codes[SpecialCodeIndex::VEOL] == before.special_codes[SpecialCodeIndex::VEOL];
        (answer, screen, restored)
    }

    #[test]
    fn prompt_secret_hides_input_and_restores_terminal() {
        let (answer, screen, restored) =
            prompt_on_pty("wrong\u{15}cansry\u{7f}\u{7f}\u{7f}ary é\n".as_bytes());
        assert_eq!(answer.unwrap().expose(), "canary é");
        assert_eq!(screen, "password: \r\n");
        assert!(restored);
    }

    #[test]
    fn prompt_secret_restores_terminal_on_ctrl_c() {
        let (answer, screen, restored) = prompt_on_pty(b"can\x03");
        assert!(matches!(answer, Err(PlatformError::Interrupted)));
        assert_eq!(screen, "password: \r\n");
        assert!(restored);
    }

    #[test]
    fn read_secret_trims_final_newline() {
        let read = |text: &str| read_secret(&mut text.as_bytes()).map(|secret| secret.expose().to_owned());
        assert_eq!(read("a b \n").unwrap(), "a b ");
        assert_eq!(read("a\r\n").unwrap(), "a");
        assert_eq!(read("a\n\n").unwrap(), "a\n");
        assert_eq!(read("a").unwrap(), "a");
        assert!(read("").is_err());
        assert!(read("\n").is_err());
    }
}
