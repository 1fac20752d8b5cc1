//! Links the programs for old C libraries, too.

fn main() {
    dlio_linking::programs();
}
