//! The terminal that `dlio top` takes over, and restores however the program ends.
//!
//! Keys, size changes and termination signals all arrive through one `poll`, so no thread or signal handler is needed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::Modifier;
use terminal_size::terminal_size_of;

use crate::text_table::is_obeyed;

/// The size of a terminal that does not report one.
const USUAL: Size = Size::new(80, 24);

const CTRL_C: u8 = 3;
const ESCAPE: u8 = 27;

/// The reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    Nothing,
    Key(char),
    Resized,
    /// Ctrl-C, a termination signal, or a closed terminal.
    Stop,
}

/// Standard input and output as a screen.
pub struct Screen {
    before: Termios,
    signals: SignalFd,
    /// The bytes to write with the next flush.
    out: Vec<u8>,
    /// Keys that were read together with the key that was returned.
    typed: VecDeque<char>,
}

impl Screen {
    /// Takes over the terminal.
    pub fn take() -> io::Result<Screen> {
        let before = tcgetattr(io::stdin())?;
        let mut mask = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGWINCH]
            .into_iter()
            .for_each(|signal| mask.add(signal));
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw)?;
        // From now on, dropping it restores the terminal.
        let mut screen = Screen { before, signals, out: Vec::new(), typed: VecDeque::new() };
        screen.out.extend(b"\x1b[?1049h\x1b[?25l\x1b[2J");
        screen.flush()?;
        Ok(screen)
    }

    /// Waits for an event or a deadline.
    pub fn wait(&mut self, until: Instant) -> io::Result<Happened> {
        if let Some(key) = self.typed.pop_front() {
            return Ok(Happened::Key(key));
        }
        // Rounded up: a wait that ends just before the deadline would be repeated in a busy loop.
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let stdin = io::stdin();
        let mut asked =
            [PollFd::new(stdin.as_fd(), PollFlags::POLLIN), PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut asked, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(Happened::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let came = asked.map(|asked| asked.any().unwrap_or(true));
        if came[1] {
            let signal = self.signals.read_signal()?.map(|info| info.ssi_signo as i32);
            return Ok(match signal {
                Some(number) if number == Signal::SIGWINCH as i32 => Happened::Resized,
                Some(_) => Happened::Stop,
                None => Happened::Nothing,
            });
        }
        if !came[0] {
            return Ok(Happened::Nothing);
        }
        let mut bytes = [0; 64];
        let read = io::stdin().lock().read(&mut bytes)?;
        // A closed terminal does not deliver any more input.
        if read == 0 || bytes[..read].contains(&CTRL_C) {
            return Ok(Happened::Stop);
        }
        self.typed.extend(keys(&bytes[..read]));
        Ok(self.typed.pop_front().map_or(Happened::Nothing, Happened::Key))
    }
}

/// Returns the plain keys of the input. Arrow keys and similar are multi-byte sequences without a meaning here.
fn keys(typed: &[u8]) -> Vec<char> {
    let (mut found, mut rest) = (Vec::new(), typed);
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (&ESCAPE, [b'[', after @ ..]) => {
                let end = after.iter().position(|byte| (0x40..0x7f).contains(byte));
                end.map_or(&[][..], |end| &after[end + 1..])
            }
            (&ESCAPE, [b'O', _, after @ ..]) => after,
            (&ESCAPE, _) => after,
            (key, _) => {
                found.push(*key as char);
                after
            }
        };
    }
    found
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.out.clear();
        self.out.extend(b"\x1b[0m\x1b[?25h\x1b[?1049l");
        // Errors are ignored: a closed terminal cannot be restored.
        let _ = self.flush();
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

impl Screen {
    fn move_to(&mut self, x: u16, y: u16) {
        self.out.extend(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
    }

    fn style(&mut self, modifier: Modifier) {
        self.out.extend(b"\x1b[0");
        for (is, code) in [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")] {
            if modifier.contains(is) {
                self.out.extend(code.as_bytes());
            }
        }
        self.out.push(b'm');
    }
}

impl Backend for Screen {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let (mut next, mut modifier) = (None, None);
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.move_to(x, y);
            }
            if modifier != Some(cell.modifier) {
                self.style(cell.modifier);
                modifier = Some(cell.modifier);
            }
            let shown = |c| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c };
            self.out.extend(cell.symbol().chars().map(shown).collect::<String>().as_bytes());
            next = Some((x + 1, y));
        }
        self.style(Modifier::empty());
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.extend(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.extend(b"\x1b[?25h");
        Ok(())
    }

    /// Returns a dummy position: the cursor is hidden, and its position is never used.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.move_to(x, y);
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.out.extend(match region {
            ClearType::All => &b"\x1b[2J"[..],
            ClearType::AfterCursor => b"\x1b[J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(terminal_size_of(io::stdout()).map_or(USUAL, |(width, height)| Size::new(width.0, height.0)))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&self.out)?;
        self.out.clear();
        stdout.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_no_keys_and_swallow_none() {
        assert_eq!(keys(b"bc"), ['b', 'c']);
        assert_eq!(keys(b"\x1b[B \x1b[1;5Ct\x1bOPq"), [' ', 't', 'q']);
        assert_eq!((keys(b"\x1b"), keys(b"\x1b[1;"), keys(b"\x1bO")), (vec![], vec![], vec!['O']));
    }
}
