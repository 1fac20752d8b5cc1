//! More readers than processors can run.

use super::super::case::{Case, Judgement};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::summary::groups::training::RankGroup;
use crate::summary::report::findings::Confidence;
use crate::summary::units::grouped;

pub const RULE: Rule = Rule {
    id: "too-many-readers",
    group: Group::Loader,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a host has two readers a processor or more",
    silences: &[],
    silences_rules: &[],
    remedy: "fewer readers: cores / ranks is where to begin",
    torch: "fewer num_workers: cores / ranks is where to begin",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// True where more readers would find no processor.
pub fn is_crowded(case: &Case) -> bool {
    let judged = judge(&Case { rule: RULE.id, ..*case });
    judged.measures.iter().all(|measure| measure.holds() == Some(true))
}

fn judge(case: &Case) -> Judgement {
    let groups = &case.summary.training;
    let readers = |host: &str| -> usize {
        groups.iter().filter(|group| group.host == host).map(RankGroup::readers_at_once).sum()
    };
    let loads = case.summary.hosts.iter().filter_map(|host| {
        let (cores, readers) = (host.cores.filter(|cores| *cores > 0)?, readers(&host.host));
        let says = format!("{} readers on {} share {cores} processors", grouped(readers as u64), host.host);
        Some((readers as f64 / cores as f64, says))
    });
    let most = loads.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| !groups.is_empty());
    Judgement {
        measures: vec![case.at_least("per-core", most.as_ref().map(|(ratio, _)| *ratio))],
        says: most.map(|(_, says)| says).unwrap_or_default(),
        decide: "a trace with trainers and readers that tells how many processors there are",
        ..Judgement::default()
    }
}
