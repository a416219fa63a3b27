//! The errors of a split plot: what differs from round to round between builds, and between the designs on one.

/// Two variances, from the rounds in which all designs ran.
#[derive(Debug, Clone)]
pub(super) struct Split {
    rounds: usize,
    /// Indices of the designs on each build.
    builds: Vec<Vec<usize>>,
    /// Of the mean of a build in a round, and its degrees of freedom.
    between: (f64, f64),
    /// Of a design in a round, against the mean of its build, and its degrees of freedom.
    within: (f64, f64),
}

impl Split {
    /// By the logarithms of `rounds`, whose designs have these numbers of builds.
    pub(super) fn of(rounds: &[Vec<f64>], builds: &[usize]) -> Split {
        let mut numbers = builds.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let designs_of = |number: &usize| (0..builds.len()).filter(|at| builds[*at] == *number).collect();
        let by_build: Vec<Vec<usize>> = numbers.iter().map(designs_of).collect();
        let means: Vec<f64> = (0..builds.len())
            .map(|design| rounds.iter().map(|round| round[design]).sum::<f64>() / rounds.len().max(1) as f64)
            .collect();
        let (mut between, mut within) = (0.0, 0.0);
        for round in rounds {
            let left = |design: usize| round[design] - means[design];
            let of_builds: Vec<f64> = by_build
                .iter()
                .map(|of| of.iter().map(|at| left(*at)).sum::<f64>() / of.len() as f64)
                .collect();
            let middle = of_builds.iter().sum::<f64>() / of_builds.len().max(1) as f64;
            between += of_builds.iter().map(|mean| (mean - middle) * (mean - middle)).sum::<f64>();
            for (of, mean) in by_build.iter().zip(&of_builds) {
                within += of.iter().map(|at| (left(*at) - mean) * (left(*at) - mean)).sum::<f64>();
            }
        }
        let freedom = |of: usize| (of * rounds.len().saturating_sub(1)) as f64;
        let of_builds = freedom(by_build.len().saturating_sub(1));
        let of_designs = freedom(builds.len() - by_build.len());
        Split {
            rounds: rounds.len(),
            builds: by_build,
            between: (between / of_builds.max(1.0), of_builds),
            within: (within / of_designs.max(1.0), of_designs),
        }
    }

    /// The variance of a contrast with these weights of the designs' effects, and its degrees of freedom.
    pub(super) fn of_contrast(&self, weights: &[f64]) -> (f64, f64) {
        let (mut between, mut within) = (0.0, 0.0);
        for of in &self.builds {
            let sum: f64 = of.iter().map(|at| weights[*at]).sum();
            let mean = sum / of.len() as f64;
            between += sum * sum;
            within += of.iter().map(|at| (weights[*at] - mean) * (weights[*at] - mean)).sum::<f64>();
        }
        let rounds = self.rounds.max(1) as f64;
        // What is only rounding has no part in it.
        let part = |squares: f64, (variance, freedom): (f64, f64)| {
            if squares > 1e-18 { (squares * variance / rounds, freedom) } else { (0.0, f64::INFINITY) }
        };
        let parts = [part(between, self.between), part(within, self.within)];
        let all: f64 = parts.iter().map(|(variance, _)| variance).sum();
        // Nothing is known of a part without freedom.
        if all == 0.0 || parts.iter().any(|(_, freedom)| *freedom == 0.0) {
            return (all, parts.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min));
        }
        let doubt: f64 = parts.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
        (all, all * all / doubt)
    }
}
