//! The file formats of checkpoints.
//!
//! ```text
//! tensor_file  the trait of all formats
//! torch          `torch.save`
//! safetensors    safetensors
//! sorted_table  LevelDB's table, used for TensorFlow's index
//! tensorflow     TensorFlow's two files
//! distributed    `torch.distributed.checkpoint`
//! ```

pub mod distributed;
pub mod safetensors;
pub mod sorted_table;
pub mod tensor_file;
pub mod tensorflow;
pub mod torch;
