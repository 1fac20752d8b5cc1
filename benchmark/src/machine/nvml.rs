//! Counters of NVIDIA GPUs, read from the driver's management library (NVML), which is loaded at run time.
//!
//! The numbers help to explain a run but prove nothing, because a GPU counts as busy in a period if at least one kernel ran
//! in it. A number that the driver does not provide is missing, for example in a partition of a GPU (MIG).

use std::ffi::{CStr, c_char, c_int, c_void};

use dlio_schemas::machine::counters::place;
use dlio_schemas::machine::samples::Reading;

type Device = *mut c_void;
type Status = c_int;

/// `NVML_SUCCESS` and `NVML_ERROR_GPU_IS_LOST`.
const SUCCESS: Status = 0;
const LOST: Status = 15;

/// Further devices are left out.
const DEVICES_MAX: u32 = 64;

const LIBRARY: &CStr = c"libnvidia-ml.so.1";

/// `nvmlUtilization_t`, in percent of the last sample period.
#[derive(Default)]
#[repr(C)]
struct Utilization {
    gpu: u32,
    memory: u32,
}

/// `nvmlMemory_t`.
#[derive(Default)]
#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlFieldValue_t`.
#[derive(Default)]
#[repr(C)]
struct Field {
    id: u32,
    scope: u32,
    timestamp: i64,
    latency: i64,
    kind: u32,
    status: Status,
    value: u64,
}

/// `NVML_FI_DEV_PCIE_COUNT_TX_BYTES` and `NVML_FI_DEV_PCIE_COUNT_RX_BYTES`: read from a register, unlike the rate, whose
/// measurement takes 20 ms.
const SENT: u32 = 197;
const RECEIVED: u32 = 198;
/// `NVML_VALUE_TYPE_UNSIGNED_LONG` and `_LONG_LONG`. A counter of 32 bits overflows several times per second.
const WIDE_KINDS: [u32; 2] = [2, 3];

type Query<T> = unsafe extern "C" fn(Device, *mut T) -> Status;

/// The functions of the library, as far as this version has them.
struct Functions {
    utilization: Option<Query<Utilization>>,
    memory: Option<Query<Memory>>,
    power: Option<Query<u32>>,
    fields: Option<unsafe extern "C" fn(Device, c_int, *mut Field) -> Status>,
    uuid: Option<unsafe extern "C" fn(Device, *mut c_char, u32) -> Status>,
    name: Option<unsafe extern "C" fn(Device, *mut c_char, u32) -> Status>,
}

/// A loaded NVML and its devices.
pub struct Nvml {
    functions: Functions,
    devices: Vec<Gpu>,
}

struct Gpu {
    device: Device,
    /// Its number in NVML's order.
    number: String,
    is_lost: bool,
}

// SAFETY: the pointers are handles of NVML, which any thread may use.
unsafe impl Send for Nvml {}

/// A loaded library, which is never closed.
struct Library(*mut c_void);

impl Library {
    fn load() -> Result<Library, String> {
        // SAFETY: a terminated name; the driver's library has no other effect than to load.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("no driver of NVIDIA: {} cannot be loaded", LIBRARY.to_string_lossy()));
        }
        Ok(Library(library))
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    /// `F` is the type of the function with this name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is loaded and the name is terminated; `F` is a function pointer of the right type.
        unsafe {
            let address = libc::dlsym(self.0, name.as_ptr());
            (!address.is_null()).then(|| std::mem::transmute_copy::<*mut c_void, F>(&address))
        }
    }

    /// Returns a function that every version has.
    ///
    /// # Safety
    /// As [`Library::function`].
    unsafe fn required<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        let (library, function) = (LIBRARY.to_string_lossy(), name.to_string_lossy());
        // SAFETY: by the contract above.
        unsafe { self.function(name) }.ok_or_else(|| format!("{library} has no {function}; update the driver"))
    }

    /// Returns an error of the library in words.
    fn error(&self, what: &str, status: Status) -> String {
        // SAFETY: a function of this type, which returns a constant string.
        let text = unsafe {
            let text = self.function::<unsafe extern "C" fn(Status) -> *const c_char>(c"nvmlErrorString");
            text.map(|text| text(status)).filter(|text| !text.is_null()).map(|text| CStr::from_ptr(text))
        };
        let text = text.map_or_else(|| format!("error {status}"), |text| text.to_string_lossy().to_lowercase());
        format!("{what} failed: {text}")
    }
}

impl Nvml {
    /// Loads the driver's library and lists the devices; on failure returns the cause. Takes up to a second if no process
    /// uses the driver.
    pub fn open() -> Result<Nvml, String> {
        let library = Library::load()?;
        // SAFETY: functions of these names and types in every version of NVML since 2012; handles are written before use.
        unsafe {
            let init: unsafe extern "C" fn() -> Status = library.required(c"nvmlInit_v2")?;
            let count_of: unsafe extern "C" fn(*mut u32) -> Status = library.required(c"nvmlDeviceGetCount_v2")?;
            let device_at: unsafe extern "C" fn(u32, *mut Device) -> Status =
                library.required(c"nvmlDeviceGetHandleByIndex_v2")?;
            let mut count = 0;
            match init() {
                SUCCESS => {}
                status => return Err(library.error("nvmlInit", status)),
            }
            match count_of(&mut count) {
                SUCCESS if count > 0 => {}
                SUCCESS => return Err("the driver of NVIDIA lists no GPU".into()),
                status => return Err(library.error("nvmlDeviceGetCount", status)),
            }
            let gpu = |number: u32| {
                let mut device = std::ptr::null_mut();
                let is_found = device_at(number, &mut device) == SUCCESS;
                is_found.then(|| Gpu { device, number: number.to_string(), is_lost: false })
            };
            let devices: Vec<Gpu> = (0..count.min(DEVICES_MAX)).filter_map(gpu).collect();
            if devices.is_empty() {
                return Err("no GPU may be queried; check the permissions of /dev/nvidia*".into());
            }
            Ok(Nvml { functions: Functions::of(&library), devices })
        }
    }

    /// Returns numbers, identifiers and names of the devices: `0 GPU-1234 NVIDIA H200; 1 ...`.
    pub fn names(&self) -> String {
        let text = |query: Option<unsafe extern "C" fn(Device, *mut c_char, u32) -> Status>, gpu: &Gpu| {
            let mut text = [0u8; 96];
            // SAFETY: the function writes a terminated text of at most this length.
            let status = query.map(|query| unsafe { query(gpu.device, text.as_mut_ptr().cast(), text.len() as u32) });
            let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned();
            (status == Some(SUCCESS)).then_some(text)
        };
        let about = |gpu: &Gpu| {
            let parts = [Some(gpu.number.clone()), text(self.functions.uuid, gpu), text(self.functions.name, gpu)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        self.devices.iter().map(about).collect::<Vec<_>>().join("; ")
    }

    /// Reads all devices once. A device that is lost is not queried again.
    pub fn read(&mut self) -> Vec<Reading> {
        let mut out = Vec::new();
        for gpu in &mut self.devices {
            if !gpu.is_lost {
                self.functions.read(gpu, &mut out);
            }
        }
        out
    }
}

impl Functions {
    /// # Safety
    /// The library is NVML.
    unsafe fn of(library: &Library) -> Functions {
        // SAFETY: functions of these names have these types in every version.
        unsafe {
            Functions {
                utilization: library.function(c"nvmlDeviceGetUtilizationRates"),
                memory: library.function(c"nvmlDeviceGetMemoryInfo"),
                power: library.function(c"nvmlDeviceGetPowerUsage"),
                fields: library.function(c"nvmlDeviceGetFieldValues"),
                uuid: library.function(c"nvmlDeviceGetUUID"),
                name: library.function(c"nvmlDeviceGetName"),
            }
        }
    }

    fn read(&self, gpu: &mut Gpu, out: &mut Vec<Reading>) {
        let mut put = |name: &str, value: u64| {
            let counter = place(name).expect("the list has every counter that is read");
            out.push(Reading { counter, scope: gpu.number.clone(), value });
        };
        let mut is_lost = false;
        let mut is_read = |status: Status| {
            is_lost |= status == LOST;
            status == SUCCESS
        };
        let (mut utilization, mut memory, mut power) = (Utilization::default(), Memory::default(), 0);
        let mut fields = [SENT, RECEIVED].map(|id| Field { id, ..Field::default() });
        // SAFETY: each function fills in a struct of this type, and the last one two of them.
        unsafe {
            if self.utilization.is_some_and(|query| is_read(query(gpu.device, &mut utilization))) {
                put("gpu_busy", utilization.gpu.into());
                put("gpu_memory_busy", utilization.memory.into());
            }
            if self.memory.is_some_and(|query| is_read(query(gpu.device, &mut memory))) {
                put("gpu_memory_used", memory.used);
            }
            if self.power.is_some_and(|query| is_read(query(gpu.device, &mut power))) {
                put("gpu_power", power.into());
            }
            if self.fields.is_some_and(|query| is_read(query(gpu.device, 2, fields.as_mut_ptr()))) {
                for (field, name) in fields.iter().zip(["gpu_pcie_sent", "gpu_pcie_received"]) {
                    if field.status == SUCCESS && WIDE_KINDS.contains(&field.kind) {
                        put(name, field.value);
                    }
                }
            }
        }
        if is_lost {
            put("gpu_lost", 1);
            gpu.is_lost = true;
        }
    }
}
