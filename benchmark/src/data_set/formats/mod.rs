//! File formats. A format writes one file of samples and reads one sample. It does not handle epochs, ranks, workers or order. To
//! add a format, write a file that implements the two traits, and add a line to [`ALL`].
//!
//! ```text
//! format       the two traits
//! containers   zip and tar
//! NAME         one format; hdf5 has several files
//! ```

pub mod containers;
mod csv;
mod format;
pub mod hdf5;
mod images;
mod indexed;
mod mds;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod raw;
mod synthetic;
mod tfrecord;
mod webdataset;

pub use format::{Format, Reader, strided_sample};

use crate::failure::{Failure, Outcome};

#[cfg(feature = "parquet")]
const PARQUET: &[&dyn Format] = &[&parquet::Parquet];
#[cfg(not(feature = "parquet"))]
const PARQUET: &[&dyn Format] = &[];

pub const ALL: &[&dyn Format] = &[
    &npz::Npz,
    &npy::Npy,
    &hdf5::Hdf5,
    &csv::Csv,
    &tfrecord::TfRecord,
    &images::Jpeg,
    &images::Png,
    &indexed::Indexed { map: false },
    &indexed::Indexed { map: true },
    &webdataset::Webdataset,
    &mds::Mds,
    &raw::Raw,
    &synthetic::Synthetic,
];

pub fn names() -> Vec<&'static str> {
    ALL.iter().chain(PARQUET).map(|format| format.name()).collect()
}

pub fn find(name: &str) -> Outcome<&'static dyn Format> {
    let mut all = ALL.iter().chain(PARQUET);
    all.find(|format| format.name() == name).copied().ok_or_else(|| {
        Failure::refused(format!("workload.dataset.format={name} is not built in"))
            .remedy(format!("known: {}", names().join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::format::gathered;
    use super::*;
    use crate::config::Config;
    use crate::data_set::layout::{FileSpec, Layout};
    use crate::files::atomic_file::AtomicFile;
    use crate::files::input::Access;
    use crate::keys::value::parse_yaml;
    use std::fs::File;
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn layout(folder: &TempDir, text: &str) -> Layout {
        let mut config = Config::read(&parse_yaml("t", text).unwrap()).unwrap();
        config.dataset.folder = folder.path().to_path_buf();
        Layout::new(&config.dataset)
    }

    /// Writes file 0; returns its path and content.
    fn written(layout: &Layout) -> (FileSpec, Vec<u8>) {
        for folder in layout.folders() {
            std::fs::create_dir_all(folder).unwrap();
        }
        let spec = layout.spec(0, layout.shapes().at(0));
        let format = find(&layout.dataset.format).unwrap();
        let mut draft = AtomicFile::new(&spec.path).unwrap();
        format.write(&spec, &layout.dataset, &mut draft, &mut Vec::new()).unwrap();
        draft.commit().unwrap();
        if let Some(expected) = format.file_bytes(&spec, &layout.dataset) {
            assert_eq!(std::fs::metadata(&spec.path).unwrap().len(), expected, "{}", layout.dataset.format);
        }
        let content = gathered(&spec, 0, spec.payload_bytes(), &mut Vec::new());
        (spec, content)
    }

    fn reader_of(layout: &Layout) -> Box<dyn Reader> {
        find(&layout.dataset.format).unwrap().reader(&layout.dataset, Access { map: true, ..Access::default() })
    }

    /// Returns the sample from the content stream: consecutive, or strided if the sample axis is last.
    fn expected(spec: &FileSpec, format: &str, content: &[u8], index: u64) -> Vec<u8> {
        if format == "npz" || format == "npy" {
            return strided_sample(content, spec.element, spec.samples, index);
        }
        let size = spec.sample_bytes() as usize;
        content[index as usize * size..][..size].to_vec()
    }

    fn comes_back(text: &str) {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(&folder, text);
        let (spec, content) = written(&layout);
        let mut reader = reader_of(&layout);
        for index in [0, spec.samples - 1, 0] {
            reader.open(&spec.path).unwrap();
            reader.sample(index).unwrap();
            let want = expected(&spec, &layout.dataset.format, &content, index);
            assert!(reader.content(index) == want, "{text}: sample {index}");
            assert!(reader.take_moved() > 0, "{text}");
            reader.close();
        }
    }

    /// JPEG is lossy, and columns of Parquet have various types.
    #[test]
    fn lossy_formats_detect_changed_files() {
        let column = |dtype: &str, size: u64| format!("{{name: {dtype}, dtype: {dtype}, size: {size}}}");
        let types = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "string", "binary"];
        let columns: Vec<String> =
            types.map(|dtype| column(dtype, 30)).into_iter().chain([column("int64", 1)]).collect();
        let parquet =
            format!("{{format: parquet, num_samples_per_file: 3, parquet: {{columns: [{}]}}}}", columns.join(", "));
        let parquet = if cfg!(feature = "parquet") { Some(parquet) } else { None };
        for text in ["{format: jpeg, record_length_bytes: 40000}".to_string()].into_iter().chain(parquet) {
            let folder = tempfile::tempdir().unwrap();
            let layout = layout(&folder, &format!("{{dataset: {text}}}"));
            let (spec, _) = written(&layout);
            let format = find(&layout.dataset.format).unwrap();
            let mut reader = reader_of(&layout);
            let mut comes_back = |sample| {
                reader.open(&spec.path).unwrap();
                let read = reader.sample(sample).is_ok();
                read && reader.content(sample) == format.expected(&spec, &layout.dataset, sample).unwrap()
            };
            assert!((0..spec.samples).all(&mut comes_back), "{text}");
            let mut bytes = std::fs::read(&spec.path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle..middle + 16].iter_mut().for_each(|byte| *byte ^= 0x55);
            std::fs::write(&spec.path, bytes).unwrap();
            assert!(!(0..spec.samples).all(&mut comes_back), "{text}");
        }
    }

    #[test]
    fn exact_formats_round_trip() {
        for format in ["npz", "npy", "hdf5", "csv", "tfrecord", "indexed_binary", "mmap_indexed_binary"] {
            comes_back(&format!(
                "{{dataset: {{format: {format}, num_samples_per_file: 3, record_length_bytes: 5000}}}}"
            ));
        }
        comes_back("{dataset: {format: png, record_length_bytes: 300000}}");
        #[cfg(feature = "parquet")]
        comes_back(
            "{dataset: {format: parquet, num_samples_per_file: 7, record_length_bytes: 5000, parquet: {row_group_size: 3}}}",
        );
    }

    /// Returns the bytes that this thread has read, as counted by the kernel.
    fn read_by_this_thread() -> Option<(u64, u64)> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let read = text.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()?;
        Some((read, text.len() as u64))
    }

    #[test]
    fn a_reader_counts_every_byte_that_it_reads() {
        for format in ["npz", "npy", "hdf5", "csv", "tfrecord", "indexed_binary", "png", "jpeg"] {
            let folder = tempfile::tempdir().unwrap();
            let samples = if matches!(format, "png" | "jpeg") { 1 } else { 3 };
            let text = format!(
                "{{dataset: {{format: {format}, num_samples_per_file: {samples}, record_length_bytes: 2500}}}}"
            );
            let layout = layout(&folder, &text);
            let (spec, _) = written(&layout);
            let mut reader = reader_of(&layout);
            let Some((before, told)) = read_by_this_thread() else { return };
            reader.open(&spec.path).unwrap();
            (0..samples).for_each(|sample| reader.sample(sample).unwrap());
            let (after, _) = read_by_this_thread().unwrap();
            assert_eq!(reader.take_moved(), after - before - told, "{format}");
        }
    }

    #[test]
    fn records_in_order_share_windows() {
        let folder = tempfile::tempdir().unwrap();
        let layout =
            layout(&folder, "{dataset: {format: tfrecord, num_samples_per_file: 300, record_length_bytes: 2500}}");
        let (spec, _) = written(&layout);
        let length = std::fs::metadata(&spec.path).unwrap().len();
        let read = |by_index: bool, samples: &[u64]| {
            let access = Access { by_index, ..Access::default() };
            let mut reader = find("tfrecord").unwrap().reader(&layout.dataset, access);
            reader.open(&spec.path).unwrap();
            samples.iter().for_each(|sample| {
                reader.sample(*sample).unwrap();
                assert_eq!(reader.bytes().len(), 2500);
            });
            reader.take_moved()
        };
        let one = length / 300;
        assert_eq!((read(true, &[7]), read(true, &[0]), read(true, &[299, 4, 100])), (one, one, 3 * one));
        assert_eq!((read(false, &[0]), read(false, &[0, 299])), (1 << 18, (1 << 18) + one));
        // After the first one they are read in order.
        assert_eq!((read(true, &[0, 1, 2]), read(true, &(0..300).collect::<Vec<_>>())), (one + (1 << 18), length));
        let index = spec.index_path.clone();
        std::fs::write(&index, std::fs::read_to_string(&index).unwrap().replace(&format!(" {one}\n"), "\n")).unwrap();
        assert_eq!(read(true, &[7]), 1 << 18);
    }

    #[test]
    fn a_csv_grows_as_much_as_its_first_bytes() {
        for (element, compression) in [("uint8", "none"), ("uint8", "gzip"), ("int16", "none"), ("float32", "none")] {
            let folder = tempfile::tempdir().unwrap();
            let text = format!(
                "{{dataset: {{format: csv, compression: {compression}, record_element_type: {element}, \
                 num_samples_per_file: 2, record_length_bytes: 100000}}}}"
            );
            let layout = layout(&folder, &text);
            let (spec, content) = written(&layout);
            let length = std::fs::metadata(&spec.path).unwrap().len() as f64;
            let estimated = find("csv").unwrap().growth(&layout.dataset) * content.len() as f64;
            assert!((0.98..1.05).contains(&(estimated / length)), "{text}: {estimated} for {length}");
        }
    }

    #[test]
    fn wide_elements_round_trip() {
        for format in ["npz", "npy", "hdf5", "csv", "indexed_binary", "tfrecord"] {
            for element in ["int16", "uint32", "int64", "float32", "float64"] {
                comes_back(&format!(
                    "{{dataset: {{format: {format}, num_samples_per_file: 2, record_dims: [3, 5], record_element_type: {element}}}}}"
                ));
            }
        }
    }

    #[test]
    fn every_compression_round_trips() {
        for (format, compression) in [
            ("npz", "zip"),
            ("hdf5", "gzip"),
            ("hdf5", "lzf"),
            ("csv", "gzip"),
            ("csv", "bz2"),
            ("csv", "zip"),
            ("csv", "xz"),
        ] {
            comes_back(&format!(
                "{{dataset: {{format: {format}, compression: {compression}, num_samples_per_file: 2, record_length_bytes: 4000}}}}"
            ));
        }
    }

    #[test]
    fn hdf5_takes_chunks_shapes_and_several_data_sets() {
        comes_back(
            "{dataset: {format: hdf5, num_samples_per_file: 4, record_dims: [6, 8], hdf5: {num_dset_per_record: 3}}}",
        );
        comes_back(
            "{dataset: {format: hdf5, num_samples_per_file: 4, record_dims: [6, 8], hdf5: {chunk_dims: [1, 3, 8]}}}",
        );
        comes_back(
            "{dataset: {format: hdf5, num_samples_per_file: 4, record_dims: [6, 8], enable_chunking: true, chunk_size: 16}}",
        );
        comes_back(
            "{dataset: {format: hdf5, num_samples_per_file: 2, record_dims: [6, 8], hdf5: {chunk_dims: [1, 6, 8], max_shape: [10, 6, 8]}}}",
        );
    }

    #[test]
    fn a_jpeg_is_decoded_to_its_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(&folder, "{dataset: {format: jpeg, record_length_bytes: 10000}}");
        let (spec, _) = written(&layout);
        let mut reader = reader_of(&layout);
        reader.open(&spec.path).unwrap();
        reader.sample(0).unwrap();
        assert_eq!(reader.bytes().len(), 100 * 100);
        // A gray image needs one table; Pillow writes no other.
        let bytes = std::fs::read(&spec.path).unwrap();
        assert_eq!(bytes.windows(4).filter(|four| *four == [0xff, 0xdb, 0, 0x43]).count(), 1);
    }

    #[test]
    fn a_cut_file_is_damaged_data_with_its_name() {
        for format in ["npz", "npy", "hdf5", "tfrecord", "png", "jpeg", "indexed_binary", "mmap_indexed_binary"] {
            let folder = tempfile::tempdir().unwrap();
            let layout = layout(&folder, &format!("{{dataset: {{format: {format}, record_length_bytes: 90000}}}}"));
            let (spec, _) = written(&layout);
            let length = std::fs::metadata(&spec.path).unwrap().len();
            File::options().write(true).open(&spec.path).unwrap().set_len(length / 2).unwrap();
            let mut reader = reader_of(&layout);
            let failure = reader.open(&spec.path).and_then(|()| reader.sample(0)).unwrap_err();
            assert_eq!(failure.exit_code(), 5, "{format}: {failure}");
            assert!(failure.what.contains(&spec.path.display().to_string()), "{format}: {failure}");
        }
    }

    #[test]
    fn sizes_are_those_the_layout_of_the_original_gives() {
        for (format, bytes) in [("npz", 2_097_202), ("npy", 2_096_832), ("hdf5", 2_098_760)] {
            let folder = tempfile::tempdir().unwrap();
            let layout = layout(&folder, &format!("{{dataset: {{format: {format}, record_length_bytes: 2097152}}}}"));
            let (spec, _) = written(&layout);
            assert_eq!(std::fs::metadata(&spec.path).unwrap().len(), bytes, "{format}");
        }
    }

    #[test]
    fn changed_byte_is_found_by_checksums() {
        for format in ["npz", "tfrecord", "png"] {
            let folder = tempfile::tempdir().unwrap();
            let layout = layout(&folder, &format!("{{dataset: {{format: {format}, record_length_bytes: 90000}}}}"));
            let (spec, _) = written(&layout);
            let mut bytes = std::fs::read(&spec.path).unwrap();
            bytes[5000] ^= 1;
            std::fs::write(&spec.path, bytes).unwrap();
            let mut reader = find(format).unwrap().reader(&layout.dataset, Access::default());
            reader.open(&spec.path).unwrap();
            assert_eq!(reader.sample(0).unwrap_err().exit_code(), 5, "{format}");
        }
    }

    #[test]
    fn an_unknown_format_is_refused() {
        assert!(find("hdf5_opt").is_err());
        assert_eq!(PathBuf::from(find("npz").unwrap().name()), PathBuf::from("npz"));
    }
}
