//! The table of AWS instance types: comma-separated, without quotes; and the import of what
//! `aws ec2 describe-instance-types` prints.

use super::CatalogError;
use super::types::{DiskSpeed, Instance, InstanceLimits, LocalDisks};
use serde::Deserialize;

/// Sources of the table's rows, by the letter in `disk_figures`.
const AWS_DISKS: &str = "awsdocs/amazon-ec2-user-guide@d289961 (2023-05-11, CC-BY-SA-4.0), 4 KiB random I/O of all disks, divided by their number";
const SCYLLA: &str =
    "scylladb/scylla-machine-image@f25b2c5 common/aws_io_params.yaml (Apache-2.0), measured by iotune";
const MOTO: &str = "moto 5.2.5 (2026-10-27, Apache-2.0): ec2/resources/instance_types.json.gz";

/// Reads the table.
///
/// # Errors
/// A line that is not like its heading.
pub(super) fn read_table(text: &str) -> Result<Vec<Instance>, CatalogError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let heading: Vec<&str> = lines.next().map_or(Vec::new(), |(_, line)| line.split(',').collect());
    lines
        .map(|(number, line)| {
            let fields: Vec<&str> = line.split(',').collect();
            let wrong = |what: String| CatalogError::Table { line: number + 1, what };
            if fields.len() != heading.len() {
                return Err(wrong(format!("{} fields instead of {}", fields.len(), heading.len())));
            }
            let text = |name: &str| {
                let index = heading.iter().position(|column| *column == name);
                index.map_or("", |index| fields[index])
            };
            let number = |name: &str| match text(name) {
                "" => Ok(None),
                value => value
                    .parse::<f64>()
                    .map(Some)
                    .map_err(|_| wrong(format!("`{value}` in {name} is no number"))),
            };
            row(text, number)
        })
        .collect()
}

fn row<'a>(
    text: impl Fn(&str) -> &'a str,
    number: impl Fn(&str) -> Result<Option<f64>, CatalogError>,
) -> Result<Instance, CatalogError> {
    let volumes = match (number("ebs_baseline_mbps")?, number("ebs_baseline_iops")?) {
        (Some(baseline_mbps), Some(baseline_iops)) => Some(InstanceLimits {
            baseline_mbps,
            max_mbps: number("ebs_max_mbps")?.unwrap_or(baseline_mbps),
            baseline_iops,
            max_iops: number("ebs_max_iops")?.unwrap_or(baseline_iops),
            burst_minutes: number("ebs_burst_minutes")?,
            attachments: number("attachments")?.map(|count| count as u32),
        }),
        _ => None,
    };
    let disks = match (number("disks")?, number("disk_gb")?) {
        (Some(count), Some(size_gb)) => {
            let measured = text("disk_figures") == "s";
            // AWS publishes the sum over the disks, iotune measures one.
            let each = if measured { 1.0 } else { count.max(1.0) };
            let speed = match (number("disk_read_iops")?, number("disk_write_iops")?) {
                (Some(read_iops), Some(write_iops)) => Some(DiskSpeed {
                    read_iops: read_iops / each,
                    write_iops: write_iops / each,
                    read_bytes_s: number("disk_read_bytes_s")?,
                    write_bytes_s: number("disk_write_bytes_s")?,
                    source: if measured { SCYLLA } else { AWS_DISKS }.to_owned(),
                }),
                _ => None,
            };
            let media = text("disk_media").to_owned();
            Some(LocalDisks { count: count as u32, size_gb: size_gb as u64, media, speed })
        }
        _ => None,
    };
    Ok(Instance {
        provider: "aws".into(),
        id: text("type").to_owned(),
        vcpus: number("vcpus")?.map(|count| count as u32),
        memory_mib: number("memory_mib")?.map(|size| size as u64),
        volumes,
        network_gbps: number("net_baseline_gbps")?,
        disks,
        hour: None,
        last_seen: text("last_seen").parse().ok(),
        sources: vec![MOTO.to_owned()],
    })
}

/// What `aws ec2 describe-instance-types` prints, as far as it is used. Field names: EC2 API reference,
/// InstanceTypeInfo.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    instance_types: Vec<DescribedType>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedType {
    instance_type: String,
    v_cpu_info: Option<VCpuInfo>,
    memory_info: Option<MemoryInfo>,
    ebs_info: Option<EbsInfo>,
    network_info: Option<NetworkInfo>,
    instance_storage_info: Option<StorageInfo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VCpuInfo {
    default_v_cpus: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryInfo {
    size_in_mi_b: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EbsInfo {
    ebs_optimized_info: Option<EbsOptimizedInfo>,
    maximum_ebs_attachments: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EbsOptimizedInfo {
    baseline_bandwidth_in_mbps: Option<f64>,
    maximum_bandwidth_in_mbps: Option<f64>,
    baseline_iops: Option<f64>,
    maximum_iops: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkInfo {
    network_cards: Option<Vec<NetworkCard>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkCard {
    baseline_bandwidth_in_gbps: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StorageInfo {
    disks: Option<Vec<DiskInfo>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DiskInfo {
    #[serde(rename = "SizeInGB")]
    size_in_gb: u64,
    count: u32,
    #[serde(rename = "Type")]
    media: String,
}

/// Reads the output of `aws ec2 describe-instance-types`.
///
/// # Errors
/// When it is not that.
pub(super) fn import(json: &str) -> Result<Vec<Instance>, CatalogError> {
    let described: Described =
        serde_json::from_str(json).map_err(|error| CatalogError::Import { what: error.to_string() })?;
    Ok(described.instance_types.into_iter().map(imported).collect())
}

fn imported(from: DescribedType) -> Instance {
    let ebs = from.ebs_info;
    let attachments = ebs.as_ref().and_then(|ebs| ebs.maximum_ebs_attachments);
    let volumes = ebs.and_then(|ebs| ebs.ebs_optimized_info).and_then(|info| {
        let (baseline_mbps, baseline_iops) = (info.baseline_bandwidth_in_mbps?, info.baseline_iops?);
        let max_mbps = info.maximum_bandwidth_in_mbps.unwrap_or(baseline_mbps);
        Some(InstanceLimits {
            baseline_mbps,
            max_mbps,
            baseline_iops,
            max_iops: info.maximum_iops.unwrap_or(baseline_iops),
            // EC2 user guide, EBS-optimised instances: those that burst can hold their most for 30 minutes a day.
            burst_minutes: (max_mbps > baseline_mbps).then_some(30.0),
            attachments,
        })
    });
    let disk = from.instance_storage_info.and_then(|info| info.disks?.into_iter().next());
    Instance {
        provider: "aws".into(),
        id: from.instance_type,
        vcpus: from.v_cpu_info.and_then(|info| info.default_v_cpus),
        memory_mib: from.memory_info.and_then(|info| info.size_in_mi_b),
        volumes,
        network_gbps: from
            .network_info
            .and_then(|info| info.network_cards)
            .map(|cards| cards.iter().filter_map(|card| card.baseline_bandwidth_in_gbps).sum())
            .filter(|sum: &f64| *sum > 0.0),
        disks: disk.map(|disk| LocalDisks {
            count: disk.count,
            size_gb: disk.size_in_gb,
            media: disk.media,
            speed: None,
        }),
        hour: None,
        last_seen: None,
        sources: vec!["aws ec2 describe-instance-types".into()],
    }
}
