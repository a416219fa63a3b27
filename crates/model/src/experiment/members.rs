//! The members of an experiment one by one, to find out which of them is slow.

use super::{Design, Experiment};
use crate::layout::{ArrayKind, LayoutNode, Map};
use crate::stack::Stack;
use crate::units::{Bytes, Nanos};

/// Chunk of the arrays where no design says one: mdadm's default.
const CHUNK: Bytes = Bytes(512 * Bytes::KIB);
/// Size that stands for one that is not known while geometry is checked.
const STAND_IN: Bytes = Bytes(1 << 40);

impl Experiment {
    /// The same volumes and workloads with other designs: each volume that a design takes alone (`alone-NAME`), neighbours in
    /// stripes of two (`pair-NAME-NAME`), and all in one (`together`). Pairs and the whole say what volumes do beside each other; those
    /// that volumes are too small for are left out. Nothing else is built on them, nothing is swept, and the budget grows with the time of
    /// a round.
    pub fn by_members(&self) -> Experiment {
        let volumes: Vec<usize> = self.used_volumes().into_iter().collect();
        let name = |volume: &usize| self.volumes.get(*volume).map_or("", |volume| volume.name.as_str());
        let chunk = self.designs.iter().find_map(|design| design.layout.smallest_chunk()).unwrap_or(CHUNK);
        let design = |name: String, layout| Design { name, layout, stack: Stack::default() };
        let array = |kind: ArrayKind, members: &[usize]| LayoutNode::Array {
            kind,
            members: members.iter().map(|volume| LayoutNode::Volume(*volume)).collect(),
        };
        let (linear, stripe) = (ArrayKind::Linear, ArrayKind::Stripe { chunk });
        let mut designs: Vec<Design> = volumes
            .iter()
            .map(|volume| design(format!("alone-{}", name(volume)), array(linear, &[*volume])))
            .collect();
        let mut arrays: Vec<Design> = match volumes.len() {
            0..=2 => Vec::new(),
            _ => volumes
                .windows(2)
                .map(|two| design(format!("pair-{}-{}", name(&two[0]), name(&two[1])), array(stripe, two)))
                .collect(),
        };
        arrays.extend((volumes.len() > 1).then(|| design("together".to_owned(), array(stripe, &volumes))));
        let sizes: Vec<Bytes> = self.volumes.iter().map(|volume| volume.size.unwrap_or(STAND_IN)).collect();
        designs.extend(arrays.into_iter().filter(|array| Map::new(&array.layout, &sizes).is_ok()));
        let mut experiment = Experiment { designs, control: 0, sweep: None, ..self.clone() };
        experiment.environment.planted.clear();
        experiment.environment.planted_fields.clear();
        if let (Some(before), Some(after)) = (self.round_time(), experiment.round_time())
            && before.0 > 0
        {
            let times = (after.0 as f64 / before.0 as f64).max(1.0);
            // As far as 64 bits go: no budget stays none.
            experiment.answer.budget = Nanos((self.answer.budget.0 as f64 * times) as u64);
        }
        experiment
    }
}
