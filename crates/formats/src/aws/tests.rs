//! The examples have the shape that the API references of EC2 and of the price list service document; ids and most attributes are made up.

use super::*;
use ebbtide_model::catalog::PricedItem;

const VOLUMES: &str = include_str!("examples/describe-volumes.json");
const PRICES: &str = include_str!("examples/get-products.json");

#[test]
fn volumes_are_counted_by_what_they_are() {
    let Ok(AwsOutput::Volumes(owned)) = parse(VOLUMES) else { panic!("volumes") };
    let short: Vec<_> = owned
        .iter()
        .map(|o| (o.volume_type.as_str(), o.count, o.size_gib, o.iops, o.throughput_mib))
        .collect();
    assert_eq!(short, [("gp2", 2, 500, Some(1500), None), ("gp3", 1, 8, Some(3000), Some(125))]);
}

/// `--query 'Volumes[]'`, `'Volumes[0]'` and the like leave the entries and take the key away.
#[test]
fn what_a_query_leaves_is_read_like_the_whole() {
    let whole: Value = serde_json::from_str(VOLUMES).expect("JSON");
    let list = &whole["Volumes"];
    assert_eq!(parse(&list.to_string()), parse(VOLUMES));
    let Ok(AwsOutput::Volumes(one)) = parse(&list[0].to_string()) else { panic!("a volume") };
    assert_eq!(one.len(), 1);
    let whole: Value = serde_json::from_str(PRICES).expect("JSON");
    assert_eq!(parse(&whole["PriceList"].to_string()), parse(PRICES));
    let types = r#"[{"InstanceType": "m6i.large", "VCpuInfo": {"DefaultVCpus": 2}}]"#;
    assert!(matches!(parse(types), Ok(AwsOutput::Instances(found)) if found[0].vcpus == Some(2)));
    for text in
        ["[]", "[[\"vol-1\", 100]]", "[{\"ID\": \"vol-1\"}]", "{\"ID\": 1}", "null", "\"vol-1\"\n", "3"]
    {
        assert!(is_json(text), "{text}");
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains("--query 'Volumes[]'"), "{text}: {error}");
    }
    assert!(is_json("[ {\"a\": ") && !is_json("[[volume]]\nid = \"x\"") && !is_json("[\"a b\"]\nx = 1"));
}

#[test]
fn products_are_texts_in_a_list_and_throughput_is_for_a_gibibyte() {
    let Ok(AwsOutput::Prices(list)) = parse(PRICES) else { panic!("{:?}", parse(PRICES)) };
    let of = |id: &str, region: &str| -> Vec<(PricedItem, f64)> {
        let mut found: Vec<(PricedItem, f64)> = list
            .volumes
            .iter()
            .filter(|price| price.id == id && price.region == region)
            .map(|price| (price.what, price.usd))
            .collect();
        found.sort_by_key(|(what, _)| *what);
        found
    };
    let gp3 = [(PricedItem::Size, 0.08), (PricedItem::Iops(0), 0.005), (PricedItem::Throughput, 0.04)];
    assert_eq!(of("gp3", "us-east-1"), gp3);
    assert_eq!(of("gp3", "ap-northeast-1"), [(PricedItem::Size, 0.096)]);
    let io2 = [
        (PricedItem::Size, 0.125),
        (PricedItem::Iops(0), 0.065),
        (PricedItem::Iops(1), 0.0455),
        (PricedItem::Iops(2), 0.03185),
    ];
    assert_eq!(of("io2", "us-east-1"), io2);
    assert_eq!(of("io1", "us-east-1"), [(PricedItem::Iops(0), 0.065)]);
    let [(id, hour)] = list.instances.as_slice() else { panic!("{:?}", list.instances) };
    assert_eq!((id.as_str(), hour.usd, hour.region.as_str()), ("m6i.2xlarge", 0.384, "us-east-1"));
    assert!(list.volumes.iter().all(|price| price.as_of.is_some()));
}

#[test]
fn what_is_something_else_says_what_to_save() {
    for (text, said) in [
        ("{", "not JSON"),
        ("{}", "aws pricing get-products"),
        ("{\"Volumes\": 3}", "describe-volumes"),
        ("{\"Volumes\": [{\"Size\": -1, \"VolumeType\": \"gp3\"}]}", "describe-volumes"),
        ("{\"InstanceTypes\": [{}]}", "describe-instance-types"),
        ("{\"PriceList\": [\"{\"]}", "product 1"),
        ("{\"PriceList\": [{\"product\": {}}]}", "attributes"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(is_json("\u{feff} {") && !is_json("[source.x]"));
}

#[test]
fn a_price_that_cannot_be_right_is_refused() {
    for (from, to, said) in [
        ("\\\"0.0800000000\\\"", "\\\"-1\\\"", "no price"),
        ("\\\"USD\\\":\\\"0.0800000000\\\"", "\\\"CNY\\\":\\\"0.5\\\"", "no price in USD"),
        ("GiBps-mo", "TiBps-mo", "the unit `tibps-mo`"),
    ] {
        let text = PRICES.replace(from, to);
        assert_ne!(text, PRICES, "{from}");
        let error = parse(&text).expect_err(to).to_string();
        assert!(error.contains(said), "{error}");
    }
}
