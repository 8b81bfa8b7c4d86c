//! `pycandle/c.h` as Rust, and where the shared library is.

use std::ffi::{c_char, c_void, CStr};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use super::{Error, ErrorKind, Result};

const ABI_VERSION: i32 = 1;

#[repr(C)]
pub(super) struct RawTensor {
    pub name: *const c_char,
    pub dtype: i32,
    pub rank: i32,
    pub shape: *const i64,
    pub data: *const c_void,
}

#[repr(C)]
pub(super) struct RawInfo {
    pub name: *const c_char,
    pub dtype: i32,
    pub rank: i32,
    pub dims: *const *const c_char,
}

#[repr(C)]
pub(super) struct RawOptions {
    pub size: usize,
    pub backend: *const c_char,
    pub weights: *const c_char,
    pub checkpoint: *const c_char,
    pub cache: *const c_char,
    pub parameter_budget: usize,
    pub threads: i32,
    pub small_memory: i32,
    pub check_weights: i32,
}

macro_rules! opaque {
    ($($name:ident),*) => {
        $(#[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        })*
    };
}
opaque!(RawError, RawModel, RawTensors, RawCache);

/// Every function of the header: its name without `pycandle_`, and its type.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// The library is PyCandle's, of this version.
            unsafe fn of(library: &libloading::Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self {
                    $($name: *library.get(concat!("pycandle_", stringify!($name), "\0").as_bytes())?,)*
                })
            }
        }
    };
}

functions! {
    library_version: fn() -> *const c_char;
    error_code_of: fn(*const RawError) -> i32;
    error_message: fn(*const RawError) -> *const c_char;
    error_text: fn(*const RawError) -> *const c_char;
    error_free: fn(*mut RawError);
    tensors_count: fn(*const RawTensors) -> usize;
    tensors_at: fn(*const RawTensors, usize) -> RawTensor;
    tensors_free: fn(*mut RawTensors);
    load: fn(*const c_char, *const RawOptions, *mut *mut RawModel) -> *mut RawError;
    session: fn(*const RawModel, *mut *mut RawModel) -> *mut RawError;
    model_free: fn(*mut RawModel);
    model_name: fn(*const RawModel) -> *const c_char;
    model_backend: fn(*const RawModel) -> *const c_char;
    model_can: fn(*const RawModel, *const c_char) -> i32;
    input_count: fn(*const RawModel) -> usize;
    output_count: fn(*const RawModel) -> usize;
    input_at: fn(*const RawModel, usize) -> RawInfo;
    output_at: fn(*const RawModel, usize) -> RawInfo;
    run: fn(*const RawModel, *const RawTensor, usize, *mut *mut RawTensors) -> *mut RawError;
    cache_new: fn(*const RawModel, i64, i64, *const RawTensor, usize, *mut *mut RawCache) -> *mut RawError;
    cache_free: fn(*mut RawCache);
    cache_batch: fn(*const RawCache) -> i64;
    cache_capacity: fn(*const RawCache) -> i64;
    cache_length: fn(*const RawCache, i64) -> i64;
    cache_truncate: fn(*mut RawCache, i64, i64) -> *mut RawError;
    cache_fork: fn(*const RawCache, *const i64, usize, *mut *mut RawCache) -> *mut RawError;
    step: fn(*const RawModel, *mut RawCache, *const RawTensor, usize, *const i64, i32, *mut *mut RawTensors) -> *mut RawError;
}

fn missing(looked: &[String]) -> Error {
    let mut error = Error::new(
        ErrorKind::Library,
        "the shared library of PyCandle is not found",
    );
    error.text = format!(
        "{}\n  looked in  {}\n  hint       install it, or set PYCANDLE_LIBRARY to libpycandle.so",
        error.message,
        looked.join("\n             ")
    );
    error
}

fn candidates() -> Vec<PathBuf> {
    if let Some(file) = std::env::var_os("PYCANDLE_LIBRARY") {
        return vec![file.into()];
    }
    let name = libloading::library_filename("pycandle");
    let mut all = Vec::new();
    if let Some(folder) = std::env::current_exe()
        .ok()
        .as_deref()
        .and_then(Path::parent)
    {
        all.push(folder.join(&name));
        all.push(folder.join("../lib").join(&name));
    }
    all.push(PathBuf::from(&name)); // no folder: where the system looks
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    all.push(crate_folder.join("../..").join(&name));
    all.push(crate_folder.join("../../build/release").join(&name));
    all
}

fn open() -> Result<Functions> {
    let mut looked = Vec::new();
    for path in candidates() {
        let is_place = path.components().count() > 1;
        if is_place && !path.is_file() {
            looked.push(format!("{} (no such file)", path.display()));
            continue;
        }
        // Opening it runs its initialisers, which do nothing.
        let library = match unsafe { libloading::Library::new(&path) } {
            Ok(library) => library,
            Err(error) => {
                looked.push(format!("{} ({error})", path.display()));
                continue;
            }
        };
        let version = unsafe {
            let function = library.get::<unsafe extern "C" fn() -> i32>(b"pycandle_abi_version\0");
            function.map(|function| function()).unwrap_or(0)
        };
        if version != ABI_VERSION {
            looked.push(format!(
                "{} (its C ABI is version {version}, this crate speaks {ABI_VERSION})",
                path.display()
            ));
            continue;
        }
        match unsafe { Functions::of(&library) } {
            Ok(functions) => {
                std::mem::forget(library); // never closed: handles outlive every owner that it could have
                return Ok(functions);
            }
            Err(error) => looked.push(format!("{} ({error})", path.display())),
        }
    }
    Err(missing(&looked))
}

/// The library, opened once.
pub(super) fn library() -> Result<&'static Functions> {
    static OPENED: OnceLock<Result<Functions>> = OnceLock::new();
    OPENED.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// # Safety
/// A text of the library that is still alive, or null.
pub(super) unsafe fn text(raw: *const c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    CStr::from_ptr(raw).to_string_lossy().into_owned()
}

/// The error as a value of Rust's; what it was is freed.
pub(super) fn checked(library: &Functions, raw: *mut RawError) -> Result<()> {
    if raw.is_null() {
        return Ok(());
    }
    let kind = match unsafe { (library.error_code_of)(raw) } {
        1 => ErrorKind::Gap,
        2 => ErrorKind::Verdict,
        3 => ErrorKind::Usage,
        4 => ErrorKind::BadInput,
        _ => ErrorKind::Internal,
    };
    let error = unsafe {
        Error {
            kind,
            message: text((library.error_message)(raw)),
            text: text((library.error_text)(raw)),
        }
    };
    unsafe { (library.error_free)(raw) };
    Err(error)
}

/// Calls a function whose last argument is where its result goes.
pub(super) fn made<T>(
    library: &Functions,
    call: impl FnOnce(*mut *mut T) -> *mut RawError,
) -> Result<*mut T> {
    let mut result = ptr::null_mut();
    checked(library, call(&mut result))?;
    Ok(result)
}
