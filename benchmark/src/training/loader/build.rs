//! Builds the loader that a workload requests.

use super::order::Order;
use super::plan::{Batch, Loader, Plan, Terms, checked};
use super::source::Source;
use super::workers::Pool;
use crate::config::{Config, LoaderKind};
use crate::data_set::layout::Split;
use crate::failure::Outcome;

pub fn build(config: &Config, terms: Terms) -> Outcome<Box<dyn Loader>> {
    let plan = Plan::new(config, terms)?;
    match config.reader.loader {
        LoaderKind::Synthetic => Ok(Box::new(NoInput { plan, split: Split::Train })),
        // Collective reads are only possible in the rank itself.
        _ if config.reader.workers == 0 || config.reader.collective => Ok(Box::new(Plain::new(plan)?)),
        _ => Ok(Box::new(Pool::start(plan, config.reader.workers as u64)?)),
    }
}

/// A loader without workers: the trainer reads each batch when it needs it.
struct Plain {
    source: Source,
    plan: Plan,
    order: Order,
    split: Split,
    step: u64,
}

impl Plain {
    fn new(plan: Plan) -> Outcome<Plain> {
        let (source, order) = (plan.source(0)?, plan.order(Split::Train, 0));
        Ok(Plain { source, plan, order, split: Split::Train, step: 0 })
    }
}

impl Loader for Plain {
    fn begin(&mut self, split: Split, epoch: u64) -> Outcome<()> {
        self.source.end_epoch();
        (self.order, self.split, self.step) = (self.plan.order(split, epoch), split, 0);
        let share = self.plan.share(split);
        let positions = (0..share.steps).flat_map(move |step| share.batch_positions(step));
        self.source.begin(self.order, split, positions);
        Ok(())
    }

    fn next(&mut self) -> Outcome<Batch> {
        let positions = self.plan.share(self.split).batch_positions(self.step);
        self.step += 1;
        let batch = self.source.unit(&self.order, self.split, positions, 0);
        checked(batch, self.plan.terms.skip_failures)
    }
}

/// A loader without input, which measures the loop itself.
struct NoInput {
    plan: Plan,
    split: Split,
}

impl Loader for NoInput {
    fn begin(&mut self, split: Split, _: u64) -> Outcome<()> {
        self.split = split;
        Ok(())
    }

    fn next(&mut self) -> Outcome<Batch> {
        Ok(Batch { samples: self.plan.share(self.split).batch, ..Batch::default() })
    }
}
