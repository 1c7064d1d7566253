//! Terminal prompts, and secrets from standard input.
//!
//! A secret is never an argument, because arguments appear in the shell's history and in process lists.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::Failure;
use super::secret::Secret;

/// Maximum length of an input.
const LONGEST: u64 = 64 << 10;
/// Ctrl-C.
const INTERRUPT: u8 = 3;

/// A terminal for prompts.
pub trait Terminal {
    fn ask(&self, question: &str) -> Result<String, Failure>;
    /// Prompts without echo.
    fn ask_secret(&self, question: &str) -> Result<Secret, Failure>;
}

/// The controlling terminal of this process, independent of standard input.
pub struct Tty;

impl Terminal for Tty {
    fn ask(&self, question: &str) -> Result<String, Failure> {
        line(&open()?, question)
    }

    fn ask_secret(&self, question: &str) -> Result<Secret, Failure> {
        silently(&open()?, question)
    }
}

fn open() -> Result<File, Failure> {
    File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        let why = "there is no terminal to ask on: give --account, and --password-stdin or --token-stdin";
        Failure::Usage(why.to_owned())
    })
}

fn silently(mut tty: &File, question: &str) -> Result<Secret, Failure> {
    let silence = Silence::over(tty).map_err(|error| Failure::Terminal(error.into()))?;
    let answer = line(tty, question);
    drop(silence);
    // The user's newline was not echoed either.
    tty.write_all(b"\n").map_err(Failure::Terminal)?;
    answer.map(Secret::new)
}

fn line(mut tty: &File, question: &str) -> Result<String, Failure> {
    write!(tty, "{question}: ").map_err(Failure::Terminal)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(tty).take(LONGEST);
    // Without echo, Ctrl-C arrives as a character and ends the line.
    loop {
        let seen = reader.fill_buf().map_err(Failure::Terminal)?;
        let (length, last) = (seen.len(), seen.last().copied());
        line.extend_from_slice(seen);
        reader.consume(length);
        match last {
            Some(b'\n') => break,
            None | Some(INTERRUPT) => return Err(Failure::Interrupted),
            Some(_) => {}
        }
    }
    String::from_utf8(line).map(without_end).map_err(|_| Failure::Usage("that is not text".to_owned()))
}

/// Disables echo until dropped. Ctrl-C arrives as a character, so that the terminal's mode can be restored.
struct Silence<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn over(tty: &'a File) -> rustix::io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(tty, OptionalActions::Flush, &silent)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(self.tty, OptionalActions::Flush, &self.before);
    }
}

/// Reads a secret from standard input, without the final newline.
pub fn secret_from(input: &mut dyn Read) -> Result<Secret, Failure> {
    let mut text = String::new();
    input.take(LONGEST).read_to_string(&mut text).map_err(Failure::Stdin)?;
    let text = without_end(text);
    if text.is_empty() {
        return Err(Failure::Stdin(io::Error::other("there is nothing on it")));
    }
    Ok(Secret::new(text))
}

fn without_end(mut text: String) -> String {
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
    fn asked(typed: &[u8]) -> (Result<Secret, Failure>, String, bool) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let tty = File::options().read(true).write(true).open(path).unwrap();
        let before = tcgetattr(&tty).unwrap();
        let mut ours = File::from(ours);
        let (answer, screen) = thread::scope(|scope| {
            let answer = scope.spawn(|| silently(&tty, "password"));
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
    fn a_password_is_not_shown_and_the_terminal_is_left_as_it_was() {
        let (answer, screen, restored) = asked("wrong\u{15}cansry\u{7f}\u{7f}\u{7f}ary é\n".as_bytes());
        assert_eq!(answer.unwrap().expose(), "canary é");
        assert_eq!(screen, "password: \r\n");
        assert!(restored);
    }

    #[test]
    fn ctrl_c_ends_the_question_and_leaves_the_terminal_as_it_was() {
        let (answer, screen, restored) = asked(b"can\x03");
        assert!(matches!(answer, Err(Failure::Interrupted)));
        assert_eq!(screen, "password: \r\n");
        assert!(restored);
    }

    #[test]
    fn a_secret_ends_with_its_line() {
        let read = |text: &str| secret_from(&mut text.as_bytes()).map(|secret| secret.expose().to_owned());
        assert_eq!(read("a b \n").unwrap(), "a b ");
        assert_eq!(read("a\r\n").unwrap(), "a");
        assert_eq!(read("a\n\n").unwrap(), "a\n");
        assert_eq!(read("a").unwrap(), "a");
        assert!(read("").is_err());
        assert!(read("\n").is_err());
    }
}
