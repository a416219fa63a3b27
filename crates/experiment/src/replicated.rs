//! `layout = "replicated"`: copies on different hosts. Here it becomes the layouts that there are, mirrors or RAID10 of one member of
//! each host and a stripe or linear array over them, and nothing that follows knows of it.

use super::array::{RawArray, RawMember};
use super::error::Mistake;
use super::layouts::Over;
use super::members::resolve_names;
use super::read::{required, valid};
use super::stack::{chosen, lvm_builds, parity_only, pointless, raid5_only};
use super::walk::{STAND_IN, Walk, impossible};
use crate::problems::Span;
use ebbtide_model::experiment::LOCAL_HOST;
use ebbtide_model::layout::replicated::{Unplaceable, groups, of_group};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutError, LayoutNode, Map};
use ebbtide_model::stack::{ArrayBacking, Backing, Metadata};
use ebbtide_model::units::Bytes;

impl Walk<'_> {
    /// The layouts that a replicated design is made of, when it can be built.
    pub(super) fn replicated(&mut self, raw: &RawArray, section: (&str, &Span)) -> Option<LayoutNode> {
        let copies = match &raw.copies {
            Some(given) => given.value?,
            None => 2,
        };
        let (members, span) = required(
            &raw.members,
            "members",
            "members = [\"a[0..4]\", \"b[0..4]\"]",
            section,
            self.problems,
        )?;
        for at in members {
            if let Some(RawMember::Array(_)) = &at.value {
                let what = "the members of a replicated design are volumes".to_owned();
                let remedy = "name the volumes, whose hosts say where copies go";
                self.problems.report(&at.span, Mistake::Geometry(what), remedy);
                return None;
            }
        }
        let volumes: Vec<usize> = self.members(members)?.iter().flat_map(LayoutNode::volumes).collect();
        let hosts = self.hosts(&volumes, span)?;
        if copies < 2 {
            let at = raw.copies.as_ref().map_or(span, |copies| &copies.span);
            let remedy = "write 2 or more, or `layout = \"stripe\"` for a single copy";
            self.problems.out_of_range(at, "copies", copies, "from 2 to the number of hosts", remedy);
            return None;
        }
        let groups = match groups(&hosts.iter().map(String::as_str).collect::<Vec<_>>(), copies as usize) {
            Ok(groups) => groups,
            Err(error) => {
                let at = raw.copies.as_ref().map_or(span, |copies| &copies.span);
                self.unplaceable(&error, at, span);
                return None;
            }
        };
        let groups: Vec<Vec<usize>> = groups
            .into_iter()
            .map(|group| group.into_iter().map(|member| volumes[member]).collect())
            .collect();
        self.over(raw, copies, &groups, span)
    }

    /// The host of each volume; all of them have to say it.
    fn hosts(&mut self, volumes: &[usize], span: &Span) -> Option<Vec<String>> {
        let mut hosts = Vec::new();
        for index in volumes {
            let volume = &self.volumes.list[*index];
            match &volume.host {
                Some(host) => hosts.push(host.clone()),
                None => {
                    let what = format!(
                        "volume `{}` does not say on which host it is, and copies go to different ones",
                        volume.name
                    );
                    let owner = self
                        .volumes
                        .groups
                        .iter()
                        .find(|group| group.volumes.iter().flatten().any(|name| *name == volume.name));
                    let owner = owner.map_or(volume.name.as_str(), |group| group.name.as_str());
                    let remedy = format!(
                        "write for example `host = \"storage-a\"` below `[volumes.{owner}]`; `host = \"{LOCAL_HOST}\"` is this machine"
                    );
                    self.problems.report(span, Mistake::Geometry(what), remedy);
                    return None;
                }
            }
        }
        Some(hosts)
    }

    fn unplaceable(&mut self, error: &Unplaceable, copies: &Span, members: &Span) {
        let (at, remedy) = match error {
            Unplaceable::Hosts { hosts: 0 | 1, .. } => {
                (members, "name volumes of at least as many hosts as copies".to_owned())
            }
            Unplaceable::Hosts { hosts, .. } => {
                (copies, format!("write `copies = {hosts}`, or name volumes of more hosts"))
            }
            Unplaceable::Lopsided { host, members: of_host, all, copies: wanted, most } => {
                let more = of_host * (wanted - 1) - (all - of_host);
                let volumes = |count: usize| if count == 1 { "volume" } else { "volumes" };
                let out = of_host - most;
                let remedy = format!(
                    "leave out {out} {} of {host}, or name {more} more {} of other hosts",
                    volumes(out),
                    volumes(more)
                );
                (members, remedy)
            }
        };
        self.problems.report(at, Mistake::Geometry(error.to_string()), remedy);
    }

    /// The tree over `groups`, and how its arrays are built.
    fn over(
        &mut self,
        raw: &RawArray,
        copies: u32,
        groups: &[Vec<usize>],
        span: &Span,
    ) -> Option<LayoutNode> {
        let over = chosen(&raw.over).unwrap_or(Over::Stripe);
        let mirrors = groups.iter().all(|group| group.len() == copies as usize);
        let chunkless = mirrors && (over == Over::Linear || groups.len() == 1);
        let why = "no array of it has chunks";
        pointless(
            &raw.chunk,
            "chunk",
            chunkless,
            why,
            "remove it, or write `over = \"stripe\"`",
            self.problems,
        );
        let why = "every host has a copy: they are mirrors";
        pointless(&raw.arrangement, "arrangement", mirrors, why, "remove it", self.problems);
        parity_only(raw, self.problems);
        raid5_only(raw, self.problems);
        let chunk = self.chunk(raw, None)?;
        let arrangement = match &raw.arrangement {
            Some(given) => given.value.as_ref()?.0,
            None => Arrangement::Offset,
        };
        let arrays: Vec<LayoutNode> =
            groups.iter().map(|group| of_group(group, copies, arrangement, chunk)).collect();
        if !chunkless {
            let leaves: Vec<LayoutNode> = groups.iter().flatten().copied().map(LayoutNode::Volume).collect();
            self.room_for_a_chunk(&leaves, chunk, span)?;
        }
        if let (Some(Metadata::V090), Some(at)) = (chosen(&raw.metadata), &raw.metadata) {
            let what =
                "metadata 0.90 does not tell a half that stood still from one that ran alone".to_owned();
            self.problems.report(&at.span, Mistake::Geometry(what), "write \"1.2\", or remove it");
        }
        let backing = chosen(&raw.backing);
        let kind = match over {
            Over::Stripe if groups.len() > 1 => ArrayKind::Stripe { chunk },
            _ => ArrayKind::Linear,
        };
        if let (Some(Backing::Lvm), Some(at)) = (backing, &raw.backing) {
            lvm_builds(kind, groups.len(), &at.span, self.problems);
            self.equal_for_lvm(kind, &arrays, &at.span)?;
        }
        let write_mostly = self.write_mostly(raw, mirrors, groups)?;
        let volumes = self.volumes;
        let is_elsewhere = |volume: &usize| {
            volumes.list.get(*volume).is_some_and(|volume| volume.host.as_deref() != Some(LOCAL_HOST))
        };
        let of_groups = groups.iter().map(|group| ArrayBacking {
            backing: None,
            metadata: chosen(&raw.metadata),
            bitmap: chosen(&raw.bitmap),
            write_mostly: write_mostly.iter().copied().filter(|volume| group.contains(volume)).collect(),
            elsewhere: group.iter().copied().filter(is_elsewhere).collect(),
            ..ArrayBacking::default()
        });
        // A single array of copies is the whole design, unless LVM is to be over it.
        let node = match <[LayoutNode; 1]>::try_from(arrays) {
            Ok([only]) if backing != Some(Backing::Lvm) => {
                self.arrays.extend(of_groups);
                only
            }
            arrays => {
                self.arrays.push(ArrayBacking { backing, ..ArrayBacking::default() });
                self.arrays.extend(of_groups);
                LayoutNode::Array { kind, members: arrays.map_or_else(|arrays| arrays, |only| only.to_vec()) }
            }
        };
        let sizes: Vec<Bytes> = self.volumes.sizes.iter().map(|size| size.unwrap_or(STAND_IN)).collect();
        if let Err(error) = Map::new(&node, &sizes) {
            let at = match (&error, &raw.chunk) {
                (LayoutError::Chunk { .. }, Some(chunk)) => &chunk.span,
                _ => span,
            };
            self.problems.add(at, impossible(&error));
            return None;
        }
        Some(node)
    }

    /// Reports a stripe of LVM over arrays that differ in size, of which it uses as much as of the smallest.
    fn equal_for_lvm(&mut self, kind: ArrayKind, arrays: &[LayoutNode], span: &Span) -> Option<()> {
        let sizes: Vec<Bytes> = self.volumes.sizes.iter().map(|size| size.unwrap_or(STAND_IN)).collect();
        let capacities =
            arrays.iter().filter_map(|array| Map::new(array, &sizes).ok().map(|map| map.capacity()));
        let capacities: Vec<Bytes> = capacities.collect();
        if kind == ArrayKind::Linear || capacities.windows(2).all(|two| two[0] == two[1]) {
            return Some(());
        }
        let what = "LVM stripes over arrays of one size, and these differ".to_owned();
        let remedy = "name as many volumes of one size on each host, or write `over = \"linear\"` or `backing = \"md\"`";
        self.problems.report(span, Mistake::Geometry(what), remedy);
        None
    }

    /// The members that are read only when the others fail, where the file says; nothing where what it says is wrong.
    fn write_mostly(&mut self, raw: &RawArray, mirrors: bool, groups: &[Vec<usize>]) -> Option<Vec<usize>> {
        let why = "only a mirror can read from its other members, and here are more hosts than copies";
        pointless(&raw.write_mostly, "write_mostly", !mirrors, why, "remove it", self.problems);
        let Some((text, span)) = valid(&raw.write_mostly) else { return Some(Vec::new()) };
        let chosen = match resolve_names(text, self.volumes) {
            Ok(chosen) => chosen,
            Err(problem) => {
                problem.into_iter().for_each(|problem| self.problems.add(span, problem));
                return None;
            }
        };
        let stranger = chosen.iter().find(|volume| !groups.iter().flatten().any(|member| member == *volume));
        let (what, remedy) = if let Some(volume) = stranger {
            let name = &self.volumes.list[*volume].name;
            (format!("volume `{name}` is no member of this array"), "name members of this very array")
        } else if groups.iter().any(|group| group.iter().all(|volume| chosen.contains(volume))) {
            ("nobody is left to read from".to_owned(), "leave out the members that reads should go to")
        } else {
            return Some(chosen);
        };
        self.problems.report(span, Mistake::Geometry(what), remedy);
        None
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_model::experiment::Experiment;
    use ebbtide_model::layout::LayoutNode;

    fn parse(volumes: &str, design: &str) -> Result<Experiment, String> {
        let text = format!(
            "name = \"n\"\n{volumes}[designs.d]\nlayout = \"replicated\"\n{design}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        );
        crate::parse(&text, "test").map_err(|errors| errors.to_string())
    }

    /// So many volumes of 1 GiB on each host.
    fn hosts(counts: &[(&str, u32)]) -> String {
        counts
            .iter()
            .map(|(host, count)| {
                format!("[volumes.{host}]\ncount = {count}\nsize = \"1GiB\"\nhost = \"{host}\"\n")
            })
            .collect()
    }

    fn made(counts: &[(&str, u32)], design: &str) -> Experiment {
        parse(&hosts(counts), design).unwrap_or_else(|errors| panic!("{errors}"))
    }

    const THREE: [(&str, u32); 3] = [("a", 2), ("b", 2), ("c", 2)];

    #[test]
    fn it_is_made_of_the_layouts_that_there_are() {
        for (counts, design, made_of) in [
            (
                &THREE[..],
                "copies = 3\nchunk = \"256KiB\"\nmembers = [\"*\"]",
                "stripe of 2 (each a mirror of 3), chunk 256KiB",
            ),
            (
                &THREE[..],
                "chunk = \"64KiB\"\nmembers = [\"a*\", \"b*\", \"c*\"]",
                "stripe of 2 (each a RAID10 of 3, 2 offset copies, chunk 64KiB), chunk 64KiB",
            ),
            (
                &THREE[..],
                "arrangement = \"near\"\nover = \"linear\"\nbacking = \"lvm\"\nmembers = [\"*\"]",
                "linear, 2 members (each a RAID10 of 3, 2 near copies, chunk 512KiB)",
            ),
            (&[("a", 1), ("b", 1)][..], "members = [\"a0\", \"b0\"]", "mirror of 2"),
            (
                &[("a", 1), ("b", 1)][..],
                "backing = \"lvm\"\nmembers = [\"*\"]",
                "linear, 1 member (each a mirror of 2)",
            ),
            (
                &[("a", 3), ("b", 2), ("c", 1)][..],
                "members = [\"*\"]",
                "stripe of 3 (each a mirror of 2), chunk 512KiB",
            ),
        ] {
            let made = made(counts, design);
            assert_eq!(made.designs[0].layout.to_string(), made_of, "{design}");
            assert_eq!(
                made.designs[0].stack.kernel_only(),
                Vec::<&str>::new(),
                "{design}: every backend takes it"
            );
        }
    }

    #[test]
    fn no_array_of_copies_has_a_host_twice() {
        let made = made(&THREE, "members = [\"*\"]");
        let LayoutNode::Array { members, .. } = &made.designs[0].layout else { panic!("an array") };
        for group in members {
            let mut hosts: Vec<_> =
                group.volumes().iter().map(|volume| &made.volumes[*volume].host).collect();
            hosts.sort();
            hosts.dedup();
            assert_eq!(hosts.len(), 3);
        }
        // The stripe, then the arrays of copies with all their members elsewhere.
        let elsewhere: Vec<&[usize]> =
            made.designs[0].stack.arrays.iter().map(|array| &array.elsewhere[..]).collect();
        assert_eq!(elsewhere, [&[][..], &[0, 2, 4], &[1, 3, 5]]);
    }

    #[test]
    fn what_is_here_is_told_from_what_is_elsewhere() {
        let made = made(&[("here", 0), ("b", 1)].map(|(host, _)| (host, 1)), "members = [\"*\"]");
        assert_eq!(made.designs[0].stack.arrays[0].elsewhere, [0, 1]);
        let text = hosts(&[("here", 1), ("b", 1)]).replace("\"here\"", "\"localhost\"");
        let made = parse(&text, "members = [\"*\"]").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(made.designs[0].stack.arrays[0].elsewhere, [1]);
    }

    #[test]
    fn what_is_impossible_is_told_with_what_to_write() {
        let two = hosts(&[("a", 1), ("b", 1)]);
        let lopsided = hosts(&[("a", 3), ("b", 1)]);
        let three = hosts(&THREE);
        let homeless =
            "[volumes.a]\nsize = \"1GiB\"\n[volumes.b]\nsize = \"1GiB\"\nhost = \"b\"\n".to_owned();
        let uneven = hosts(&[("a", 2), ("b", 2), ("c", 1)]);
        for (volumes, design, told) in [
            (&two, "copies = 3\nmembers = [\"*\"]", "write `copies = 2`"),
            (&two, "copies = 1\nmembers = [\"*\"]", "`layout = \"stripe\"` for a single copy"),
            (&two, "members = [\"a0\"]", "at least as many hosts as copies"),
            (
                &lopsided,
                "members = [\"*\"]",
                "leave out 2 volumes of a, or name 2 more volumes of other hosts",
            ),
            (&homeless, "members = [\"a\", \"b\"]", "below `[volumes.a]`"),
            (&three, "members = [{ layout = \"mirror\", members = [\"a0\", \"b0\"] }]", "are volumes"),
            (&three, "members = [\"*\"]\nwrite_mostly = \"a*\"", "more hosts than copies"),
            (&two, "members = [\"*\"]\nwrite_mostly = \"*\"", "nobody is left"),
            (&two, "members = [\"*\"]\nchunk = \"64KiB\"", "no array of it has chunks"),
            (&two, "members = [\"*\"]\narrangement = \"far\"", "they are mirrors"),
            (&two, "members = [\"*\"]\nmetadata = \"0.90\"", "ran alone"),
            (&three, "members = [\"*\"]\nover = \"mirror\"", "write one of stripe, linear"),
            (&three, "members = [\"*\"]\nchunk = \"96KiB\"", "power of two"),
            (&three, "copies = 3\nmembers = [\"a0\", \"b0\", \"c0\", \"a0\"]", "used twice"),
            (&uneven, "members = [\"*\"]\nbacking = \"lvm\"", "LVM stripes over arrays of one size"),
        ] {
            let said = parse(volumes, design).map_or_else(|errors| errors, |_| "nothing".to_owned());
            assert!(said.contains(told), "{design}\n{told}: {said}");
        }
        let text = three.clone()
            + "[designs.e]\nlayout = \"stripe\"\nmembers = [\"a0\", { layout = \"replicated\", members = [\"b0\", \"c0\"] }]\n\
               [designs.f]\nlayout = \"stripe\"\nover = \"linear\"\nmembers = [\"a*\"]\n";
        let said = parse(&text, "members = [\"*\"]").map_or_else(|errors| errors, |_| "nothing".to_owned());
        assert!(
            said.contains("that of a whole design") && said.contains("`over` means nothing here"),
            "{said}"
        );
    }
}
