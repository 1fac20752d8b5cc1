//! Options of `dlio trace` for programs that use a GPU: NVTX ranges, the work of the device, and samples.
//!
//! NVIDIA's interfaces load the tracing library as a tool. Each interface accepts one tool, named in an environment variable. A
//! tool that the user has set is kept. The library is a tool of AMD's interface if it is one of CUDA's.

use std::path::Path;

use clap::Args;

use crate::machine::sampler::SampleResult;
use crate::system::processes::Variables;
use crate::system::terminal;

/// The variables that name the tools of NVTX and of CUDA.
const NVTX_TOOL: &str = "NVTX_INJECTION64_PATH";
const CUDA_TOOL: &str = "CUDA_INJECTION64_PATH";

#[derive(Args)]
pub struct GpuOptions {
    /// Record the NVTX ranges and marks of PyTorch, NCCL, DALI and other libraries as spans
    #[arg(long)]
    nvtx: bool,
    /// Record kernels, copies and graphs of NVIDIA GPUs (CUPTI), and kernels and copies of AMD GPUs (rocprofiler-sdk), and
    /// sample NVIDIA GPUs once per second (NVML). Not yet tested on a GPU
    #[arg(long)]
    pub gpu: bool,
}

impl GpuOptions {
    /// Sets the variables that make the library a tool.
    pub fn pass_on(&self, library: &Path, variables: &mut Variables) {
        if self.nvtx && is_free(NVTX_TOOL, library, "cannot record NVTX ranges (--nvtx)") {
            variables.set(NVTX_TOOL, library);
        }
        if self.gpu && is_free(CUDA_TOOL, library, "cannot record the work of GPUs (--gpu)") {
            variables.set(CUDA_TOOL, library);
        }
    }
}

/// Returns `true` if no other tool is set; otherwise prints that the option has no effect.
fn is_free(variable: &str, library: &Path, failure: &str) -> bool {
    let other = std::env::var_os(variable).filter(|tool| !tool.is_empty() && tool != library);
    if let Some(tool) = &other {
        let tool = tool.to_string_lossy();
        terminal::warn(format_args!("dlio: {failure}: {variable} names another tool, {tool}; unset the variable"));
    }
    other.is_none()
}

/// Prints why GPUs were not sampled.
pub fn report_failure(machine: &SampleResult) {
    if let Some(cause) = &machine.gpu_failure {
        terminal::warn(format_args!("dlio: cannot sample GPUs (--gpu): {cause}"));
    }
}
