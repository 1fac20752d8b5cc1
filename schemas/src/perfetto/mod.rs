//! Perfetto traces: what people look at.
