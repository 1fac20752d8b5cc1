//! The rules, one per file.

mod backward_seeks;
mod byte_imbalance;
mod cache_resident;
mod cache_thrash;
mod checkpoint_one_rank;
mod checkpoint_stalls;
mod compute_bound;
mod cpu_affinity;
mod cpu_quota;
mod data_set_per_sample;
mod device_saturated;
mod failed_lookups;
mod failing_io;
mod fsync_share;
mod hand_over;
mod hot_file;
mod independent_requests;
mod input_bound;
mod io_limit;
mod launch_bound;
mod listing;
mod loader_capacity;
mod loader_cpu_bound;
mod loader_jitter;
mod lock_wait;
mod metadata_bound;
mod mmap_unseen;
mod network_wait;
mod nfs_client_queue;
mod nfs_server;
mod no_overlap;
mod noisy_neighbor;
mod open_serial;
mod opened_never_read;
mod page_faults;
mod pageable_copies;
mod process_killed;
mod random_in_file;
mod read_amplification;
mod readahead;
mod reader_programs;
mod reader_sleep;
mod redundant_reads;
mod reopen_storm;
mod seek_noise;
mod shared_block_writes;
mod shm_small;
mod slow_but_idle_device;
mod slow_start;
mod slow_worker;
mod small_objects;
mod small_reads;
mod small_writes;
mod stat_storm;
mod storage_latency_bound;
mod storage_saturated;
mod store_retries;
mod store_throttled;
mod straggler_rank;
mod swap;
mod sync_every_step;
mod temp_on_shared;
mod tiny_stdio;
mod too_many_readers;
mod too_many_threads;
mod trust;
mod unaligned;
mod uring_unseen;
mod workers_restart;
mod would_fit;

use super::Rule;

/// All rules; FINDINGS.md lists them.
pub const RULES: &[Rule] = &[
    input_bound::RULE,
    compute_bound::RULE,
    launch_bound::RULE,
    sync_every_step::RULE,
    pageable_copies::RULE,
    cpu_quota::RULE,
    cpu_affinity::RULE,
    too_many_threads::RULE,
    noisy_neighbor::RULE,
    loader_capacity::RULE,
    slow_worker::RULE,
    loader_cpu_bound::RULE,
    loader_jitter::RULE,
    hand_over::RULE,
    page_faults::RULE,
    network_wait::RULE,
    reader_programs::RULE,
    reader_sleep::RULE,
    storage_saturated::RULE,
    storage_latency_bound::RULE,
    io_limit::RULE,
    device_saturated::RULE,
    slow_but_idle_device::RULE,
    readahead::RULE,
    nfs_server::RULE,
    nfs_client_queue::RULE,
    too_many_readers::RULE,
    no_overlap::RULE,
    workers_restart::RULE,
    slow_start::RULE,
    would_fit::RULE,
    cache_thrash::RULE,
    cache_resident::RULE,
    small_reads::RULE,
    small_writes::RULE,
    small_objects::RULE,
    store_throttled::RULE,
    store_retries::RULE,
    tiny_stdio::RULE,
    random_in_file::RULE,
    backward_seeks::RULE,
    unaligned::RULE,
    shared_block_writes::RULE,
    read_amplification::RULE,
    independent_requests::RULE,
    redundant_reads::RULE,
    hot_file::RULE,
    metadata_bound::RULE,
    stat_storm::RULE,
    reopen_storm::RULE,
    data_set_per_sample::RULE,
    open_serial::RULE,
    failed_lookups::RULE,
    listing::RULE,
    opened_never_read::RULE,
    temp_on_shared::RULE,
    seek_noise::RULE,
    lock_wait::RULE,
    fsync_share::RULE,
    checkpoint_stalls::RULE,
    checkpoint_one_rank::RULE,
    straggler_rank::RULE,
    byte_imbalance::RULE,
    mmap_unseen::RULE,
    uring_unseen::RULE,
    shm_small::RULE,
    process_killed::RULE,
    failing_io::RULE,
    swap::RULE,
    trust::RULE,
];
