//! A connection to another rank, on this host or another one, and its messages.
//!
//! ```text
//! message    length (8 bytes, little-endian)   bytes
//! last       2^64 - 2   length   bytes         the run has failed: rank 0 sends its exit code, other ranks their final bytes
//! farewell   2^64 - 1   exit code (8 bytes)    the final message: the sender exits with this code
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A message from another rank.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    Bytes(Vec<u8>),
    /// The run has failed. Contains the final bytes of a rank, or, from rank 0, its exit code as a number.
    Last(Vec<u8>),
    /// The sender exits with this code.
    Farewell(i32),
}

/// Marker that replaces the length.
const FAREWELL: u64 = u64::MAX;
const LAST: u64 = u64::MAX - 1;

/// The maximum size of a message. No rank sends more at a time, so a longer message is not from a rank.
const MESSAGE_MAX: u64 = 1 << 32;

impl Socket {
    /// Sends bytes as one message.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = (bytes.len() as u64).to_le_bytes();
        // One call, and with TCP one packet.
        self.write_all(&[&length, bytes].concat())
    }

    /// Sends the last message of a failed run; the receiver learns that the run has failed.
    pub fn send_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = (bytes.len() as u64).to_le_bytes();
        self.write_all(&[&LAST.to_le_bytes()[..], &length, bytes].concat())
    }

    /// Announces an orderly exit to the receiver.
    pub fn send_farewell(&mut self, code: i32) -> io::Result<()> {
        self.write_all(&[FAREWELL.to_le_bytes(), (code as u64).to_le_bytes()].concat())
    }

    pub fn receive(&mut self) -> io::Result<Message> {
        let mut eight = [0; 8];
        self.read_exact(&mut eight)?;
        let mut length = u64::from_le_bytes(eight);
        let last = length == LAST;
        if last {
            self.read_exact(&mut eight)?;
            length = u64::from_le_bytes(eight);
        } else if length == FAREWELL {
            self.read_exact(&mut eight)?;
            return Ok(Message::Farewell(u64::from_le_bytes(eight) as i32));
        }
        if length > MESSAGE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no message of a rank"));
        }
        let mut bytes = vec![0; length as usize];
        self.read_exact(&mut bytes)?;
        Ok(if last { Message::Last(bytes) } else { Message::Bytes(bytes) })
    }

    pub fn shutdown(&self) {
        // A broken connection does not need to be shut down.
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Sets how long to wait for a message; `None` waits forever.
    pub fn set_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.set_read_timeout(limit),
            Socket::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(into),
            Socket::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Socket::Unix(stream) => stream.as_raw_fd(),
            Socket::Tcp(stream) => stream.as_raw_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_and_farewell_is_separate() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Socket::Unix(ours), Socket::Unix(theirs));
        for bytes in [&b""[..], b"x", &[7; 100_000]] {
            let received = std::thread::scope(|threads| {
                threads.spawn(|| ours.send(bytes).unwrap());
                theirs.receive().unwrap()
            });
            assert_eq!(received, Message::Bytes(bytes.to_vec()));
        }
        for bytes in [&b""[..], b"figures"] {
            ours.send_last(bytes).unwrap();
            assert_eq!(theirs.receive().unwrap(), Message::Last(bytes.to_vec()));
        }
        ours.send_farewell(130).unwrap();
        assert_eq!(theirs.receive().unwrap(), Message::Farewell(130));
        ours.write_all(&[0xfe; 8]).unwrap();
        assert_eq!(theirs.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(theirs.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
