//! Sites recently used by name: `with span("step")` in a loop numbers its strings once.
//!
//! Strings are distinguished by their addresses, because each literal of a program is one object. An entry keeps its
//! strings alive, so that an address cannot be reused for another one.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::gil_cell::GilCell;
use crate::template::Site;

const ENTRIES: usize = 256;

struct Entry {
    name: Py<PyString>,
    category: Option<Py<PyString>>,
    site: Arc<Site>,
}

static CACHED_SITES: GilCell<[Option<Entry>; ENTRIES]> = GilCell::new([const { None }; ENTRIES]);

/// Returns the site of a name and a category.
pub fn site(name: &Bound<PyString>, category: Option<&Bound<PyString>>) -> Arc<Site> {
    let py = name.py();
    let at = place(name, category);
    let known = CACHED_SITES.with(py, |entries| {
        let entry = entries[at].as_ref()?;
        let same = entry.name.is(name) && address(entry.category.as_ref()) == address(category.map(Bound::as_unbound));
        same.then(|| entry.site.clone())
    });
    known.unwrap_or_else(|| add(at, name, category))
}

#[cold]
fn add(at: usize, name: &Bound<PyString>, category: Option<&Bound<PyString>>) -> Arc<Site> {
    let site = Site::of(name, category);
    let entry =
        Entry { name: name.clone().unbind(), category: category.map(|it| it.clone().unbind()), site: site.clone() };
    // The previous entry is dropped outside: the destructor of a string of a derived class may run Python.
    let before = CACHED_SITES.with(name.py(), |entries| entries[at].replace(entry));
    drop(before);
    site
}

fn address(text: Option<&Py<PyString>>) -> usize {
    text.map_or(0, |text| text.as_ptr() as usize)
}

/// Objects are 16 bytes apart.
fn place(name: &Bound<PyString>, category: Option<&Bound<PyString>>) -> usize {
    let mixed = name.as_ptr() as usize ^ address(category.map(Bound::as_unbound)).rotate_left(7);
    (mixed >> 4 ^ mixed >> 12) % ENTRIES
}
