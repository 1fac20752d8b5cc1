//! A table of descriptors and their files that a fork copies at almost no cost.
//!
//! ```text
//! process  own: 7 -> /c, 3 closed
//!            |
//! layer    4 -> /b          shared with a child
//!            |
//! layer    3 -> /a          shared with all descendants
//! ```

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

type Map = HashMap<i32, u32, RandomState>;

/// The descriptors of one process and the numbers of their files.
#[derive(Clone, Default)]
pub struct Descriptors {
    own: Map,
    below: Option<Rc<Layer>>,
}

/// The state before a fork, which never changes again.
struct Layer {
    entries: Map,
    below: Option<Rc<Layer>>,
    depth: usize,
}

/// Marks a descriptor as closed in a table whose lower layers contain it.
const CLOSED: u32 = u32::MAX;

/// The maximum number of layers in a lookup; more layers are merged.
const DEPTH_MAX: usize = 16;

impl Descriptors {
    pub fn get(&self, fd: i32) -> Option<u32> {
        let mut layer = self.below.as_ref();
        let mut found = self.own.get(&fd);
        while let (None, Some(next)) = (found, layer) {
            (found, layer) = (next.entries.get(&fd), next.below.as_ref());
        }
        found.copied().filter(|file| *file != CLOSED)
    }

    pub fn open(&mut self, fd: i32, file: u32) {
        self.own.insert(fd, file);
    }

    pub fn close(&mut self, fd: i32) {
        match self.below {
            Some(_) => drop(self.own.insert(fd, CLOSED)),
            None => drop(self.own.remove(&fd)),
        }
    }

    /// Closes descriptors `first` to `last`.
    pub fn close_range(&mut self, first: i64, last: i64) {
        let mut open = self.united();
        open.retain(|fd, _| !(first..=last).contains(&i64::from(*fd)));
        *self = Descriptors { own: open, below: None };
    }

    /// Returns the table of a child, which starts with the same content.
    pub fn fork(&mut self) -> Descriptors {
        if !self.own.is_empty() {
            let depth = self.below.as_ref().map_or(0, |layer| layer.depth) + 1;
            let layer = match depth > DEPTH_MAX {
                true => Layer { entries: self.united(), below: None, depth: 1 },
                false => Layer { entries: std::mem::take(&mut self.own), below: self.below.take(), depth },
            };
            *self = Descriptors { own: Map::default(), below: Some(Rc::new(layer)) };
        }
        self.clone()
    }

    /// Returns all open descriptors in one table.
    fn united(&self) -> Map {
        let mut tables = vec![&self.own];
        let mut layer = self.below.as_ref();
        while let Some(next) = layer {
            tables.push(&next.entries);
            layer = next.below.as_ref();
        }
        let mut all = Map::default();
        tables.iter().rev().for_each(|table| all.extend(*table));
        all.retain(|_, file| *file != CLOSED);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_inherit_descriptors_at_fork() {
        let mut parent = Descriptors::default();
        (0..100).for_each(|fd| parent.open(fd, fd as u32 + 1));
        let mut children = Vec::new();
        for fd in 0..100 {
            let mut child = parent.fork();
            child.open(200, fd as u32);
            children.push(child);
            parent.close(fd);
        }
        for (fd, child) in children.iter().enumerate() {
            let fd = fd as i32;
            assert_eq!((child.get(fd), child.get(200)), (Some(fd as u32 + 1), Some(fd as u32)));
            assert_eq!((child.get(fd - 1), child.get(99)), (None, Some(100)));
        }
        assert!((0..300).all(|fd| parent.get(fd).is_none()));
        assert!(parent.below.as_ref().is_some_and(|layer| layer.depth <= DEPTH_MAX));
    }
}
