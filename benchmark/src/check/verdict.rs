//! All findings about a directory, and whether MLCommons would accept it.

use super::edition::{Division, Version};
use super::finding::{Finding, Verdict};
use super::results::{Kind, Results, Workload};
use super::rules::case::Case;
use super::rules::{checkpointing, files, package, parameters, places, quality, systems, training};
use crate::failure::Outcome;
use std::path::PathBuf;

/// What to check, and for which version and division.
#[derive(Debug, Default)]
pub struct Request {
    pub folder: PathBuf,
    /// By default, the version that the results are of, or the newest one.
    pub version: Option<Version>,
    /// By default, the division that the results are of, or the closed one.
    pub division: Option<Division>,
    /// Memory of each host in GiB, instead of that in the results.
    pub memory: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    Yes,
    No,
    /// Some rules cannot be decided from the files.
    Unknown,
}

impl Accepted {
    pub fn name(self) -> &'static str {
        match self {
            Accepted::Yes => "yes",
            Accepted::No => "no",
            Accepted::Unknown => "unknown",
        }
    }
}

#[derive(Debug)]
pub struct Checked {
    pub folder: PathBuf,
    pub version: Version,
    /// No file contains a version.
    pub version_assumed: bool,
    pub division: Division,
    pub findings: Vec<Finding>,
    /// Each workload, and its number of runs.
    pub workloads: Vec<(String, usize)>,
    pub closed: Accepted,
    pub open: Accepted,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub fail: usize,
    pub pass: usize,
    pub unknown: usize,
}

/// Checks a directory. Fails only if it has no results.
pub fn check(request: &Request) -> Outcome<Checked> {
    let results = Results::read(&request.folder)?;
    let found = version(&results);
    let version = request.version.or(found).unwrap_or(Version::V3);
    let own = results.workloads.iter().find_map(|workload| workload.division);
    let division = request.division.or(own).unwrap_or(Division::Closed);
    let mut findings = all(&results, request, version, request.division);
    sort(&mut findings, version);
    let accepted = |division| accepted(&all(&results, request, version, Some(division)));
    let (closed, open) = (accepted(Division::Closed), accepted(Division::Open));
    let workloads = results.workloads.iter().map(|workload| (workload.label(), workload.measured().len())).collect();
    let folder = results.root.clone();
    let version_assumed = request.version.is_none() && found.is_none();
    Ok(Checked { folder, version, version_assumed, division, findings, workloads, closed, open })
}

/// Returns the version that most files belong to.
fn version(results: &Results) -> Option<Version> {
    let signs: Vec<Version> =
        results.workloads.iter().flat_map(Workload::versions).map(|(version, _)| version).collect();
    let of = |wanted: Version| signs.iter().filter(|version| **version == wanted).count();
    match (of(Version::V2), of(Version::V3)) {
        (0, 0) => None,
        (older, newer) if older > newer => Some(Version::V2),
        _ => Some(Version::V3),
    }
}

/// Returns the findings of all rules of a version. If a division is given, every workload is judged by its rules.
fn all(results: &Results, request: &Request, version: Version, division: Option<Division>) -> Vec<Finding> {
    let case = Case { results, version, division, memory: request.memory, one_run: results.is_one_run() };
    let mut findings = package::findings(&case);
    findings.extend(systems::findings(&case));
    for workload in &results.workloads {
        let mut of_workload = package::of_workload(&case, workload);
        of_workload.extend(quality::findings(&case, workload));
        of_workload.extend(systems::of_workload(&case, workload));
        of_workload.extend(files::findings(&case, workload));
        of_workload.extend(parameters::findings(&case, workload));
        of_workload.extend(places::findings(&case, workload));
        of_workload.extend(match workload.kind {
            Kind::Training => training::findings(&case, workload),
            Kind::Checkpointing => checkpointing::findings(&case, workload),
        });
        for mut finding in of_workload {
            finding.about = workload.label();
            // An open submission may do this.
            if finding.verdict == Verdict::OpenOnly {
                let open = case.division_of(workload) == Division::Open;
                finding.verdict = if open { Verdict::Pass } else { Verdict::Fail };
            }
            findings.push(finding);
        }
    }
    findings.retain(|finding| finding.rule.number(version).is_some());
    findings
}

/// Sorts findings by workload, and by the numbers of rules within one.
fn sort(findings: &mut [Finding], version: Version) {
    let parts = |finding: &Finding| -> Vec<u32> {
        let number = finding.rule.number(version).unwrap_or_default();
        // Rules without a number come last.
        let parts = number.split(['.', ',']).map(|part| part.trim().parse().unwrap_or(u32::MAX));
        parts.collect()
    };
    findings.sort_by(|left, right| left.about.cmp(&right.about).then_with(|| parts(left).cmp(&parts(right))));
}

fn accepted(findings: &[Finding]) -> Accepted {
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    match (has(Verdict::Fail), has(Verdict::Unknown)) {
        (true, _) => Accepted::No,
        (false, true) => Accepted::Unknown,
        (false, false) => Accepted::Yes,
    }
}

impl Checked {
    pub fn counts(&self) -> Counts {
        let of = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        Counts { fail: of(Verdict::Fail), pass: of(Verdict::Pass), unknown: of(Verdict::Unknown) }
    }

    pub fn accepted(&self, division: Division) -> Accepted {
        match division {
            Division::Closed => self.closed,
            Division::Open => self.open,
        }
    }
}
