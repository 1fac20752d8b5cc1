//! The reason why readers found no free CPU: a quota, CPU affinity, too many threads, or other processes.

use std::collections::BTreeMap;

use super::Summary;
use super::findings::Unit;
use super::machine::{MachineUse, QuotaUse, allowed, most_used_up};
use super::processes::ProcessUse;
use crate::resources::CpuWeight;
use crate::summary::figures::units::{grouped, many};
use crate::summary::training::Role;

/// A quota that is used up in this share of its periods throttles its group.
pub const USED_UP: f64 = 0.25;

/// Readers have too many threads if each has this many, and each CPU has this many.
pub const THREADS_A_READER: f64 = 4.0;
pub const THREADS_A_CPU: f64 = 2.0;

/// Readers that waited for a CPU and used less than this share of their CPUs compete with other processes.
const OTHERS: f64 = 0.7;

/// Readers have thread pools if other threads than those that made the batches used this share of their CPU time.
const IN_POOLS: f64 = 0.4;

/// If other processes kept less than this share of the rest busy, readers did not wait for them.
const CONFIRMED: f64 = 0.5;

/// The CPUs that readers were allowed to use, and their use.
pub struct ReaderCpus<'a> {
    machine: &'a MachineUse,
    readers: Vec<&'a ProcessUse>,
    /// The number of CPUs on which the readers were last allowed to run, and the largest number for any of them at its
    /// start.
    pub allowed: Option<u32>,
    pub at_start: Option<u32>,
    /// The average number of CPUs that were busy with the readers.
    pub used: Option<f64>,
    /// The number of threads of all readers.
    pub threads: Option<u64>,
    /// The share of their CPU time that went to threads without calls.
    pub in_pools: Option<f64>,
}

/// The reason why readers did not get a CPU.
#[derive(Clone, PartialEq, Debug)]
pub enum Shortage {
    Quota(QuotaUse),
    /// The readers were allowed to run on `cpus` of the host's CPUs; `were` is the number at their start, if that was
    /// larger.
    Mask {
        cpus: u32,
        cores: u32,
        were: Option<u32>,
        list: Option<String>,
    },
    Threads {
        threads: u64,
        readers: u64,
        cpus: u32,
    },
    /// Threads without calls used this share of the readers' CPU time.
    Pools {
        share: f64,
        readers: u64,
        cpus: u32,
    },
    /// `cores` is the number of CPUs of the host, if that is larger. `busy` is the average number of CPUs that other
    /// processes kept busy, if the host was sampled. `weight` is the lowest CPU weight of the readers' control groups,
    /// if it is below the default.
    Others {
        used: f64,
        cpus: u32,
        cores: Option<u32>,
        busy: Option<f64>,
        weight: Option<CpuWeight>,
    },
    /// The readers used their CPUs themselves.
    Own {
        used: f64,
        cpus: u32,
    },
}

/// Returns the CPUs of the readers of all training runs, on the host with the most readers. Trainers without readers
/// count as their own readers.
pub fn reader_cpus(summary: &Summary) -> Option<ReaderCpus<'_>> {
    let with_role = |role: Role| summary.processes.iter().filter(move |process| process.role == Some(role));
    let trainers: BTreeMap<u32, &String> =
        with_role(Role::Trainer).map(|trainer| (trainer.proc, &trainer.program)).collect();
    // A worker that never ended a wait does not have the role of a reader, but is a worker of the training.
    let is_worker = |process: &&ProcessUse| {
        let of_trainer = || process.parent.and_then(|parent| trainers.get(&parent)) == Some(&&process.program);
        process.role == Some(Role::Reader) || process.role.is_none() && of_trainer()
    };
    let has_readers = with_role(Role::Reader).next().is_some();
    let readers: Vec<&ProcessUse> = match has_readers {
        true => summary.processes.iter().filter(is_worker).collect(),
        false => with_role(Role::Trainer).collect(),
    };
    let on = |host: &str| readers.iter().filter(|reader| reader.host == host).count();
    let machine = summary.machine.iter().max_by_key(|machine| on(&machine.host))?;
    let readers: Vec<&ProcessUse> = readers.into_iter().filter(|reader| reader.host == machine.host).collect();
    let resources = || readers.iter().map(|reader| &reader.resources);
    let sum = |values: Vec<Option<i64>>| values.into_iter().try_fold(0, |sum, value| Some(sum + value?));
    let cpu_ns = sum(resources().map(|it| it.cpu_ns).collect());
    let by_threads = sum(readers.iter().map(|reader| reader.threads_cpu_ns).collect());
    let first = readers.iter().filter_map(|reader| reader.first_ts).min();
    let last = readers.iter().filter_map(|reader| Some(reader.first_ts? + reader.work.span_ns)).max();
    let lived = first.zip(last).map(|(first, last)| last - first).filter(|ns| *ns > 0);
    Some(ReaderCpus {
        allowed: allowed(resources()),
        at_start: resources().filter_map(|it| it.cpus).max(),
        used: cpu_ns.zip(lived).map(|(cpu, lived)| cpu as f64 / lived as f64),
        threads: sum(readers.iter().map(|it| Some(it.threads.max(it.resources.threads_end?) as i64)).collect())
            .map(|sum| sum as u64),
        in_pools: cpu_ns
            .zip(by_threads)
            .filter(|(cpu, _)| *cpu > 0)
            .map(|(cpu, known)| 1.0 - known as f64 / cpu as f64),
        machine,
        readers,
    })
    .filter(|cpus| !cpus.readers.is_empty())
}

impl ReaderCpus<'_> {
    /// Returns the quota that throttled the readers most, if any did.
    pub fn quota(&self) -> Option<&QuotaUse> {
        let used_up = |quota: &&QuotaUse| quota.used_up().is_some_and(|part| part >= USED_UP);
        // A process that joined a group later did not see its periods. Then CPU use close to the quota shows that it is
        // tight.
        let (used, cpus) = (self.used.unwrap_or(0.0), self.allowed.map_or(f64::MAX, f64::from));
        let is_tight = |quota: &&QuotaUse| {
            quota.used_up().is_none()
                && quota.cpus < OTHERS * cpus
                && used >= OTHERS * quota.cpus
                && used <= quota.cpus / OTHERS
        };
        let quotas = || self.machine.quotas.iter();
        most_used_up(quotas().filter(used_up)).or_else(|| quotas().find(is_tight))
    }

    /// Returns a shortage if the readers have fewer CPUs than the host.
    pub fn mask(&self) -> Option<Shortage> {
        let (cpus, cores) = (self.allowed?, self.machine.cores? as u32);
        let list = self.readers[0].resources.cpu_list_end.clone().filter(|_| cpus == 1);
        let were = self.at_start.filter(|were| *were > cpus);
        (cpus < cores).then_some(Shortage::Mask { cpus, cores, were, list })
    }

    /// Returns the number of threads per reader and per CPU.
    pub fn threads_each(&self) -> Option<(f64, f64)> {
        let threads = self.threads? as f64;
        Some((threads / self.readers.len() as f64, threads / self.allowed.filter(|cpus| *cpus > 0)? as f64))
    }

    fn threads(&self) -> Option<Shortage> {
        let (a_reader, a_cpu) = self.threads_each()?;
        let (threads, readers, cpus) = (self.threads?, self.readers.len() as u64, self.allowed?);
        (a_reader >= THREADS_A_READER && a_cpu >= THREADS_A_CPU).then_some(Shortage::Threads { threads, readers, cpus })
    }

    fn pools(&self) -> Option<Shortage> {
        let share = self.in_pools.filter(|share| *share >= IN_POOLS)?;
        Some(Shortage::Pools { share, readers: self.readers.len() as u64, cpus: self.allowed? })
    }

    /// Returns the average number of CPUs that were busy with processes outside the trace, or taken by the hypervisor.
    pub(super) fn others_busy(&self) -> Option<f64> {
        self.machine.others_busy()
    }

    /// Returns the number of CPUs of the host.
    pub(super) fn cores(&self) -> Option<u32> {
        self.machine.cores.map(|cores| cores as u32)
    }

    /// Returns the lowest CPU weight of the readers' control groups, if it is below the default.
    fn low_weight(&self) -> Option<CpuWeight> {
        let weights = self.readers.iter().filter_map(|reader| reader.resources.cpu_weight);
        weights.filter(|weight| weight.is_low()).min_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// Returns why training waited this long for readers without a CPU; `None` if the trace does not show it. A quota
    /// that throttled its group for less than half of that is not the main reason.
    pub fn shortage_of(&self, lacked_ns: i64) -> Option<Shortage> {
        let explains = |quota: &&QuotaUse| quota.throttled_ns.is_none_or(|ns| 2 * ns as i64 >= lacked_ns);
        let quota = self.quota().filter(explains).map(|quota| Shortage::Quota(quota.clone()));
        quota.or_else(|| self.without_quota())
    }

    fn without_quota(&self) -> Option<Shortage> {
        let (used, cpus) = (self.used?, self.allowed?);
        let busy = self.others_busy();
        let is_shared = used < OTHERS * cpus as f64;
        if is_shared && busy.is_some_and(|busy| busy < CONFIRMED * (cpus as f64 - used)) {
            // The host had idle CPUs, so there is another reason.
            return None;
        }
        let cores = self.machine.cores.map(|cores| cores as u32).filter(|cores| *cores > cpus);
        let weight = self.low_weight();
        let own = || match is_shared {
            true => Shortage::Others { used, cpus, cores, busy, weight },
            false => Shortage::Own { used, cpus },
        };
        // Many threads that leave most of the CPUs to others are idle.
        let threads = || self.threads().filter(|_| !is_shared || busy.is_none());
        let mask = self.mask().filter(|_| !is_shared);
        Some(mask.or_else(|| self.pools()).or_else(threads).unwrap_or_else(own))
    }
}

impl Shortage {
    /// Returns a sentence on the shortage and its remedy.
    pub fn sentence(&self) -> String {
        match self {
            Shortage::Quota(quota) => format!("{}: raise the quota.", quota_text(quota)),
            Shortage::Mask { cpus, cores, were, list } => {
                let which = list.as_ref().map_or_else(String::new, |list| format!(" (CPU {list})"));
                let since = were.map_or_else(String::new, |were| {
                    format!(" They started with {were}: their own code, a library or taskset removed the rest later.")
                });
                format!("The readers may run on {cpus} of the host's {cores} CPUs{which}.{since}")
            }
            Shortage::Threads { threads, readers, cpus } => format!(
                "{} ran {} threads on {}: each has its own thread pool.",
                many(*readers, "reader", "readers"),
                grouped(*threads),
                many(*cpus as u64, "CPU", "CPUs")
            ),
            Shortage::Pools { share, readers, cpus } => format!(
                "{} of the CPU time of {} went to other threads than those that made the batches, such as the thread pools of \
                 numeric libraries: they compete for {}.",
                Unit::Share.text(*share),
                many(*readers, "reader", "readers"),
                many(*cpus as u64, "CPU", "CPUs")
            ),
            Shortage::Others { used, cpus, cores, busy, weight } => {
                let cpus = match cores {
                    Some(cores) => format!("the {cpus} of {cores} CPUs that they may run on"),
                    None => many(*cpus as u64, "CPU", "CPUs"),
                };
                let others = match busy {
                    Some(busy) => {
                        format!("other programs used {busy:.1} (the trace does not record which)")
                    }
                    None => "the trace does not show who used the rest".into(),
                };
                let weight = weight.map_or_else(String::new, |CpuWeight { value, default }| {
                    format!(
                        " The CPU weight of their control group is {value}, below the default of {default}: groups \
                         with the default got more CPU time each."
                    )
                });
                format!("The readers got {used:.1} of {cpus}; {others}.{weight}")
            }
            Shortage::Own { used, cpus } => format!(
                "The readers themselves used {used:.1} of {}: more readers would not help on these CPUs.",
                many(*cpus as u64, "CPU", "CPUs")
            ),
        }
    }
}

/// Describes a quota, and how often it was used up.
pub fn quota_text(quota: &QuotaUse) -> String {
    let used = quota.throttled_periods.zip(quota.periods).map_or_else(
        || "and used about that much".into(),
        |(up, all)| {
            format!("which was used up in {} of {}", grouped(up), many(all, "scheduling period", "scheduling periods"))
        },
    );
    format!("The job may use the time of {} CPUs (quota of {}), {used}", quota.cpus, quota.group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Resources;
    use crate::summary::report::sampled::Sampled;

    fn cpus<'a>(
        machine: &'a MachineUse,
        readers: Vec<&'a ProcessUse>,
        allowed: u32,
        used: f64,
        threads: u64,
    ) -> ReaderCpus<'a> {
        let (allowed, used) = (Some(allowed), Some(used));
        ReaderCpus { machine, readers, allowed, at_start: Some(8), used, threads: Some(threads), in_pools: None }
    }

    fn reader() -> ProcessUse {
        serde_json::from_value(serde_json::json!({
            "host": "", "pid": 1, "rank": null, "program": "", "ended": "", "threads": 1, "lost": 0, "events": 0, "failed": 0,
            "bytes_read": 0, "bytes_written": 0, "read_ns": 0, "write_ns": 0, "metadata_ns": 0, "sync_ns": 0, "compute_ns": 0,
            "span_ns": 0, "resources": Resources::default(),
        }))
        .unwrap()
    }

    #[test]
    fn each_shortage_is_told_by_its_figures() {
        let machine = MachineUse { cores: Some(8), ..MachineUse::default() };
        let (a, b) = (reader(), reader());
        let two = || vec![&a, &b];
        let of = |allowed, used, threads| cpus(&machine, two(), allowed, used, threads).shortage_of(0).unwrap();
        assert!(matches!(of(1, 0.9, 4), Shortage::Mask { cpus: 1, cores: 8, were: Some(8), .. }));
        assert!(matches!(of(8, 7.5, 40), Shortage::Threads { threads: 40, readers: 2, cpus: 8 }));
        assert!(matches!(of(8, 7.5, 4), Shortage::Own { .. }));
        assert!(matches!(of(1, 0.3, 4), Shortage::Others { .. }));
        let group = QuotaUse { cpus: 0.6, periods: Some(66), throttled_periods: Some(63), ..QuotaUse::default() };
        let held = MachineUse { cores: Some(8), quotas: vec![group.clone()], ..MachineUse::default() };
        assert_eq!(cpus(&held, two(), 8, 0.6, 4).shortage_of(0), Some(Shortage::Quota(group.clone())));
        // It throttled the group for 1.3 s: training waited longer for CPUs that others used.
        let short = QuotaUse { throttled_ns: Some(1_300_000_000), ..group.clone() };
        let busy = MachineUse { cores: Some(8), quotas: vec![short], ..MachineUse::default() };
        let of = |lacked_ns| cpus(&busy, two(), 8, 0.6, 4).shortage_of(lacked_ns);
        assert!(matches!(of(4_700_000_000), Some(Shortage::Others { .. })));
        assert!(matches!(of(2_000_000_000), Some(Shortage::Quota(_))));
        // A quota that is large enough is not the cause.
        let large = QuotaUse { throttled_periods: Some(1), ..group };
        let free = MachineUse { cores: Some(8), quotas: vec![large], ..MachineUse::default() };
        assert!(matches!(cpus(&free, two(), 8, 7.9, 4).shortage_of(0), Some(Shortage::Own { .. })));
    }

    #[test]
    fn a_machine_with_idle_cpus_is_not_taken_by_others() {
        let with = |busy: u64| MachineUse {
            cores: Some(8),
            cpu_ns: Some(1_000),
            sampled: Some(Sampled { ns: 1_000, cpu_busy_ns: Some(busy), ..Sampled::default() }),
            ..MachineUse::default()
        };
        let (a, idle, taken) = (reader(), with(1_500), with(7_900));
        assert_eq!(cpus(&idle, vec![&a], 8, 1.0, 2).shortage_of(0), None);
        let busy = |of: Option<Shortage>| match of {
            Some(Shortage::Others { busy, .. }) => busy,
            other => panic!("{other:?}"),
        };
        assert_eq!(busy(cpus(&taken, vec![&a], 8, 1.0, 2).shortage_of(0)), Some(6.9));
    }

    #[test]
    fn threads_without_calls_are_a_shortage_also_beside_other_programs() {
        let machine = MachineUse { cores: Some(2), ..MachineUse::default() };
        let (a, b) = (reader(), reader());
        let of = |share| ReaderCpus { in_pools: Some(share), ..cpus(&machine, vec![&a, &b], 2, 0.9, 4) }.shortage_of(0);
        let pools = of(0.57).unwrap();
        assert_eq!(pools, Shortage::Pools { share: 0.57, readers: 2, cpus: 2 });
        assert!(
            pools.sentence().starts_with("57 % of the CPU time of 2 readers went to other threads"),
            "{}",
            pools.sentence()
        );
        assert!(matches!(of(0.3), Some(Shortage::Others { .. })));
    }

    #[test]
    fn low_weight_explains_why_others_get_the_cpus() {
        let machine = MachineUse { cores: Some(8), ..MachineUse::default() };
        let sentence = |value: u64| {
            let (mut a, b) = (reader(), reader());
            a.resources.cpu_weight = Some(CpuWeight { value, default: 1024 });
            cpus(&machine, vec![&a, &b], 1, 0.3, 4).shortage_of(0).unwrap().sentence()
        };
        assert!(sentence(102).contains("control group is 102, below the default of 1024"), "{}", sentence(102));
        assert!(!sentence(2048).contains("weight"), "{}", sentence(2048));
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let machine = MachineUse::default();
        let a = reader();
        let unknown = ReaderCpus {
            machine: &machine,
            readers: vec![&a],
            allowed: None,
            at_start: None,
            used: None,
            threads: None,
            in_pools: None,
        };
        assert_eq!(unknown.shortage_of(0), None);
    }
}
