//! A cache in front of the store: pieces of objects in a directory of this host, fetched on first use or ahead of it. A
//! piece is a whole object, or a block of one.
//!
//! ```text
//! FOLDER/dlio-tier-RUN/[rank-N/]   used                      bytes of all pieces, under a lock
//!                                  KEY/LENGTH, 0, 1, ...     the length of the object; its pieces
//!                                  KEY/.0.lock               held by the process that fetches that piece: others wait
//! ```
//!
//! A piece is written to a temporary file and renamed. Its pages are dropped from the page cache, so that reads measure
//! the cache's device and not memory.

use super::body::{self, Body};
use super::counts::{self, Figure};
use super::session::{key_of, with_client};
use crate::failure::{Failure, Kind, Outcome};
use crate::system::{file_calls, processes};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The cache that a workload requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub folder: PathBuf,
    /// The maximum size in bytes; 0 is unlimited.
    pub size: u64,
    /// Size of a piece in bytes; `None` for whole objects.
    pub block: Option<u64>,
    /// Each rank has a separate directory, instead of one shared by the ranks of a host.
    pub by_rank: bool,
    pub evict: Evict,
    /// Prefetches the objects of a rank's first epoch in their order.
    pub ahead: bool,
    /// Keeps the pieces for the next run.
    pub keep: bool,
}

/// Which piece is evicted when there is no space for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evict {
    /// The least recently used piece.
    Lru,
    /// The oldest piece.
    Fifo,
    /// None: reads of pieces that do not fit bypass the cache.
    Nothing,
}

struct Tier {
    root: PathBuf,
    /// The cache covers objects below this path.
    of: PathBuf,
    settings: Settings,
}

static TIER: Mutex<Option<Arc<Tier>>> = Mutex::new(None);

/// Keeps the cache in use until dropped; then its pieces are deleted, unless they are to be kept.
pub struct CacheGuard {
    root: Option<PathBuf>,
    process: u32,
}

/// Reads objects below `of` through a cache from now on. `name` distinguishes runs, or a persistent cache from caches
/// of other data.
pub fn enter(settings: &Settings, of: &Path, name: u64, rank: u64) -> Outcome<CacheGuard> {
    let whole = settings.folder.join(format!("dlio-tier-{name:016x}"));
    let root = if settings.by_rank { whole.join(format!("rank-{rank}")) } else { whole };
    fs::create_dir_all(&root).map_err(|error| Failure::unwritable("create directory", &root, error))?;
    let tier = Tier { root: root.clone(), of: of.to_path_buf(), settings: settings.clone() };
    *TIER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tier));
    Ok(CacheGuard { root: (!settings.keep).then_some(root), process: std::process::id() })
}

impl Drop for CacheGuard {
    fn drop(&mut self) {
        // A forked worker that exits leaves the cache to the other processes.
        if self.process == std::process::id() {
            *TIER.lock().unwrap_or_else(PoisonError::into_inner) = None;
            if let Some(root) = &self.root {
                // Another rank of this host may have been faster.
                let _ = fs::remove_dir_all(root);
                // The shared directory is removed with the last rank's.
                let _ = root.parent().map(fs::remove_dir);
            }
        }
    }
}

/// A background process of a rank that fetches objects ahead of their use. It exits after the last object, when the
/// cache is full, or with the rank.
pub struct PrefetchProcess(libc::pid_t);

impl PrefetchProcess {
    /// Starts the process, from a process with one thread. While one object is fetched, up to `window` others are
    /// requested.
    pub fn start(mut objects: impl Iterator<Item = PathBuf>, window: usize) -> Outcome<PrefetchProcess> {
        let process = processes::fork(|| {
            processes::leave_interrupts_to_parent();
            let mut asked = VecDeque::new();
            loop {
                while asked.len() <= window {
                    let Some(path) = objects.next() else { break };
                    let Some(object) = Tiered::of(&path).and_then(Tiered::reserved) else { continue };
                    asked.push_back(object);
                    // If the request cannot be sent now, it is sent when it is the object's turn.
                    if window == 0 || !ask_ahead(&path).unwrap_or(false) {
                        break;
                    }
                }
                // If this fails, the object is fetched when a reader needs it, and the error is reported at that time.
                let fetched = asked.pop_front().is_some_and(|mut object| object.fetch_ahead().unwrap_or(false));
                if !fetched || processes::interrupted() {
                    break;
                }
            }
            0
        });
        let failed =
            |error| Failure::new(Kind::System, format!("cannot start the process that fills the cache: {error}"));
        Ok(PrefetchProcess(process.map_err(failed)?))
    }
}

impl Drop for PrefetchProcess {
    fn drop(&mut self) {
        const GRACE: Duration = Duration::from_secs(1);
        processes::stop_children(&[self.0], GRACE);
        processes::wait(self.0);
    }
}

/// An object that is read through the cache.
pub struct Tiered {
    tier: Arc<Tier>,
    path: PathBuf,
    folder: PathBuf,
    total: Option<u64>,
    /// The piece that was read last.
    open: Option<(u64, File)>,
    /// The lock of its first piece, if it was taken ahead.
    reserved: Option<File>,
    /// The object is being prefetched: it is counted separately, and no other piece is evicted for it.
    ahead: bool,
}

impl Tiered {
    /// Returns `None` if there is no cache or it does not cover the object.
    pub fn of(path: &Path) -> Option<Tiered> {
        let tier = TIER.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let below = path.strip_prefix(&tier.of).ok()?.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let folder = tier.root.join(below);
        Some(Tiered { tier, path: path.to_path_buf(), folder, total: None, open: None, reserved: None, ahead: false })
    }

    /// Returns the size of a piece in bytes; `None` for whole objects.
    pub fn block(&self) -> Option<u64> {
        self.tier.settings.block
    }

    /// Returns the object with the lock of its first piece, if that piece is missing; `None` if another process fetches
    /// it.
    fn reserved(mut self) -> Option<Tiered> {
        if !self.has_first_piece() {
            fs::create_dir_all(&self.folder).ok()?;
            let lock = self.lock_file(0).ok()?;
            lock.try_lock().ok()?;
            self.reserved = Some(lock);
        }
        Some(self)
    }

    fn lock_file(&self, index: u64) -> io::Result<File> {
        let path = self.folder.join(format!(".{index}.lock"));
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    }

    /// Returns `true` if its first piece is in the cache.
    pub fn has_first_piece(&self) -> bool {
        self.folder.join("0").exists()
    }

    /// Returns the size of the whole object.
    pub fn length(&mut self) -> Outcome<u64> {
        if let Some(total) = self.total {
            return Ok(total);
        }
        if self.noted_length().is_none() {
            self.piece(0)?;
        }
        // The process that fetched a piece knows it, or has noted it.
        self.total = self.total.or_else(|| self.noted_length());
        self.total.ok_or_else(|| Failure::damaged(&self.path, "the cache does not contain its length"))
    }

    fn noted_length(&self) -> Option<u64> {
        fs::read_to_string(self.folder.join("LENGTH")).ok()?.parse().ok()
    }

    /// Fills `into` completely, starting at `offset`.
    pub fn fill(&mut self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        let total = self.length()?;
        let end = offset + into.len() as u64;
        if end > total {
            return Err(Failure::damaged(
                &self.path,
                format!("needs bytes {offset} to {end}, but the object has {total}"),
            ));
        }
        let block = self.tier.settings.block.unwrap_or(u64::MAX);
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let (index, within) = (at / block, at % block);
            let most = (block - within).min((into.len() - done) as u64) as usize;
            let file = self.piece(index)?;
            let read = file.read_exact_at(&mut into[done..done + most], within);
            read.map_err(|error| Failure::io("read from the cache", &self.folder, error))?;
            counts::add(Figure::TierOut, most as u64);
            done += most;
        }
        Ok(())
    }

    fn piece(&mut self, index: u64) -> Outcome<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            self.close();
            let file = self.get_or_fetch(index)?;
            self.open = Some((index, file));
        }
        self.open.as_ref().map(|(_, file)| file).ok_or_else(|| Failure::damaged(&self.path, "it is not in the cache"))
    }

    /// Closes the piece and drops the pages that were read, so that the next read does not come from memory.
    fn close(&mut self) {
        if let Some((_, file)) = self.open.take() {
            let _ = file_calls::forget_pages(&file);
        }
    }

    fn get_or_fetch(&mut self, index: u64) -> Outcome<File> {
        let place = self.folder.join(index.to_string());
        if let Some(file) = self.cached(&place)? {
            counts::add(Figure::TierHits, u64::from(!self.ahead));
            return Ok(file);
        }
        let failed = |error| Failure::unwritable("create an entry in the cache:", &place, error);
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let reserved = if index == 0 { self.reserved.take() } else { None };
        // Held until the piece has its final name.
        let _lock = match reserved {
            Some(lock) => lock,
            None => self.locked(index).map_err(failed)?,
        };
        // Another process may have fetched it in the meantime.
        match self.cached(&place)? {
            Some(file) => Ok(file),
            None => self.fetched(index, &place),
        }
    }

    fn locked(&self, index: u64) -> io::Result<File> {
        let lock = self.lock_file(index)?;
        match lock.try_lock() {
            // A process that has reserved objects does not wait for one that another process may have reserved.
            Err(TryLockError::WouldBlock) if self.ahead && index == 0 => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::WouldBlock) => {
                counts::add(Figure::TierWaits, u64::from(!self.ahead));
                lock.lock()?;
            }
            taken => taken?,
        }
        Ok(lock)
    }

    fn cached(&self, place: &Path) -> Outcome<Option<File>> {
        match File::open(place) {
            Ok(file) => {
                if self.tier.settings.evict == Evict::Lru {
                    // If marking fails, the piece looks older than it is, which costs at most one fetch.
                    let _ = file.set_modified(SystemTime::now());
                }
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::io("open in the cache:", place, error)),
        }
    }

    /// Fetches a piece from the store, and keeps it if there is space.
    fn fetched(&mut self, index: u64, place: &Path) -> Outcome<File> {
        const BUFFER: usize = 1 << 20;
        let block = self.tier.settings.block;
        let mut body = Body::open(&self.path, index * block.unwrap_or(0), block)?;
        self.total = Some(body.total());
        let beside = self.folder.join(format!(".{index}.{}", std::process::id()));
        let failed = |error| Failure::unwritable("write to the cache:", &beside, error);
        let mut file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&beside).map_err(failed)?;
        let (mut buffer, mut length) = (vec![0; BUFFER.min(body.total() as usize).max(1)], 0);
        loop {
            let count = body.next(&mut buffer)?;
            if count == 0 {
                break;
            }
            file.write_all(&buffer[..count]).map_err(failed)?;
            length += count as u64;
        }
        counts::add(if self.ahead { Figure::TierAhead } else { Figure::TierMisses }, 1);
        counts::add(Figure::TierIn, length);
        file_calls::forget_pages(&file).map_err(failed)?;
        if self.tier.make_room(length, !self.ahead).map_err(failed)? {
            self.note_length(body.total()).map_err(failed)?;
            fs::rename(&beside, place).map_err(failed)?;
        } else {
            fs::remove_file(&beside).map_err(failed)?;
        }
        Ok(file)
    }
}

impl Tiered {
    /// Fetches all its pieces; returns `false` if one does not fit.
    fn fetch_ahead(&mut self) -> Outcome<bool> {
        self.ahead = true;
        let mut index = 0;
        loop {
            drop(self.get_or_fetch(index)?);
            if !self.folder.join(index.to_string()).exists() {
                return Ok(false);
            }
            index += 1;
            let total = self.length()?;
            if self.tier.settings.block.is_none_or(|block| index * block >= total) {
                return Ok(true);
            }
        }
    }

    /// Writes the length atomically: another process may read it at the same time.
    fn note_length(&self, total: u64) -> io::Result<()> {
        let beside = self.folder.join(format!(".LENGTH.{}", std::process::id()));
        fs::write(&beside, total.to_string())?;
        fs::rename(&beside, self.folder.join("LENGTH"))
    }
}

impl Drop for Tiered {
    fn drop(&mut self) {
        self.close();
    }
}

impl Tier {
    /// Reserves space for `length` bytes, evicting other pieces if needed and allowed; returns `false` if there is not
    /// enough.
    fn make_room(&self, length: u64, may_evict: bool) -> io::Result<bool> {
        let size = self.settings.size;
        let may_evict = may_evict && self.settings.evict != Evict::Nothing;
        if size == 0 {
            return Ok(true);
        }
        let path = self.root.join("used");
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut used = text.trim().parse::<u64>().unwrap_or(0);
        let has_room = used + length <= size || length <= size && may_evict;
        if has_room {
            if used + length > size {
                used = self.evicted(used, size - length)?;
            }
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all((used + length).to_string().as_bytes())?;
        }
        Ok(has_room)
    }

    /// Evicts pieces until at most `most` bytes are used; returns the bytes used.
    fn evicted(&self, mut used: u64, most: u64) -> io::Result<u64> {
        let mut pieces = Vec::new();
        for folder in fs::read_dir(&self.root)?.flatten().filter(|entry| entry.path().is_dir()) {
            for piece in fs::read_dir(folder.path())?.flatten() {
                let is_piece = piece.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
                if let Some(about) = piece.metadata().ok().filter(|_| is_piece) {
                    pieces.push((about.modified()?, piece.path(), about.len()));
                }
            }
        }
        pieces.sort();
        for (_, path, length) in pieces {
            if used <= most {
                break;
            }
            fs::remove_file(path)?;
            counts::add(Figure::TierEvictions, 1);
            used = used.saturating_sub(length);
        }
        Ok(used)
    }
}

/// Requests the part of an object that will be read first. Returns `false` if the request cannot be sent now.
pub(super) fn ask_ahead(path: &Path) -> Outcome<bool> {
    let (tiered, key) = (Tiered::of(path), key_of(path));
    if tiered.as_ref().is_some_and(Tiered::has_first_piece) {
        return Ok(true);
    }
    let range = tiered.as_ref().and_then(Tiered::block).map(|block| body::range(0, Some(block)));
    with_client(|client| {
        // A cached object is requested once, even if it is needed again.
        let is_asked = tiered.is_some() && client.has_asked_ahead(&key);
        Ok(is_asked || client.ask_ahead(&key, range))
    })
}
