//! Links the library for old C libraries, too.

fn main() {
    dlio_linking::library();
}
