//! `cargo xtask verdicts --without CLAUSE`: what each clause of the rules earns.
//!
//! A clause is a condition, an operand of one, a cap (`min`, `max`, `clamp`) or a place where a rule yields to another, in the rules, their
//! facts and the ladder. None is marked in the source: a copy of the crate is made in which each can be switched off, a condition to
//! always or never, a cap or a yielding to nothing. `crates/analysis/tests/labelled/clauses.rs` judges the cases with that copy. What is
//! shipped has nothing of it.

use crate::pages;
use crate::run::{Step, run_all, words};
use proc_macro2::Span;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr};

/// What is looked at for clauses, below the crate's `src`.
const LOOKED_AT: [&str; 3] = ["verdict", "facts", "ladder.rs"];
/// Where the copy is, below the root.
const COPY: &str = "target/clauses";
/// Closures of these methods' arguments are conditions.
const TAKE_A_CONDITION: [&str; 12] = [
    "filter",
    "find",
    "rfind",
    "any",
    "all",
    "is_some_and",
    "is_none_or",
    "is_ok_and",
    "is_err_and",
    "retain",
    "take_while",
    "partition",
];

/// What the copy has beside the crate: which clause is off in this thread, and what the values of all were.
const SWITCHES: &str = r#"
/// Which clause is off, and what values clauses had: see `xtask/src/clauses.rs`.
pub mod clauses {
    use std::cell::{Cell, RefCell};
    fn from_environment() -> Option<(u32, u8)> {
        let asked = std::env::var("EBB_TEST_CLAUSE").ok()?;
        let (id, how) = asked.split_once(' ')?;
        Some((id.parse().ok()?, how.parse().ok()?))
    }
    thread_local! {
        static OFF: Cell<Option<(u32, u8)>> = Cell::new(from_environment());
        static SEEN: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
    }
    /// Switches a clause off: 0 makes a condition always so, 1 never, 2 leaves a cap or a yielding out.
    pub fn off(clause: Option<(u32, u8)>) {
        OFF.set(clause);
    }
    /// Begins to note the values of so many clauses.
    pub fn watch(clauses: usize) {
        SEEN.set(Some(vec![0; clauses]));
    }
    /// What was noted: a bit for each of false, true, and reached.
    pub fn noted() -> Vec<u8> {
        SEEN.take().unwrap_or_default()
    }
    fn note(id: u32, bit: u8) {
        SEEN.with_borrow_mut(|seen| if let Some(seen) = seen { seen[id as usize] |= bit });
    }
    /// The value that a condition is set to.
    pub fn set(id: u32) -> Option<bool> {
        match OFF.get() {
            Some((off, how @ 0..=1)) if off == id => Some(how == 0),
            _ => None,
        }
    }
    /// Notes the value of a condition.
    pub fn seen(id: u32, value: bool) -> bool {
        note(id, if value { 2 } else { 1 });
        value
    }
    /// Whether a cap or a yielding is left out.
    pub fn without(id: u32) -> bool {
        note(id, 4);
        OFF.get() == Some((id, 2))
    }
}
"#;

/// A clause of a file.
struct Clause {
    line: usize,
    is_condition: bool,
    text: String,
}

/// Text that is put around a part of a file.
struct Around {
    span: Range<usize>,
    before: String,
    after: String,
}

/// Finds the clauses of one file.
struct Finder<'a> {
    text: &'a str,
    first: usize,
    clauses: Vec<Clause>,
    edits: Vec<Around>,
    known: HashSet<(usize, usize)>,
}

impl Finder<'_> {
    fn add(&mut self, span: Span, is_condition: bool) -> Option<(usize, Range<usize>)> {
        let range = span.byte_range();
        self.known.insert((range.start, range.end)).then(|| {
            let text = words(&self.text[range.clone()]).join(" ");
            self.clauses.push(Clause { line: span.start().line, is_condition, text });
            (self.first + self.clauses.len() - 1, range)
        })
    }

    /// Each operand of a condition is a clause.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Paren(inside) => self.condition(&inside.expr),
            Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&both.left);
                self.condition(&both.right);
            }
            Expr::Block(block) => {
                if let Some(syn::Stmt::Expr(last, None)) = block.block.stmts.last() {
                    self.condition(last);
                }
            }
            Expr::Let(_) | Expr::Lit(_) | Expr::Match(_) | Expr::If(_) => {}
            _ => {
                if let Some((id, span)) = self.add(condition.span(), true) {
                    let before = format!(
                        "(match crate::clauses::set({id}) {{ Some(set) => set, None => crate::clauses::seen({id}, "
                    );
                    self.edits.push(Around { span, before, after: ") })".to_owned() });
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let of_tests = module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if !of_tests {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if function.sig.constness.is_none() {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if function.sig.constness.is_none() {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::If(both) => self.condition(&both.cond),
            Expr::Binary(both) => {
                use BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
                if matches!(both.op, And(_) | Or(_) | Eq(_) | Ge(_) | Gt(_) | Le(_) | Lt(_) | Ne(_)) {
                    self.condition(expression);
                }
            }
            Expr::Try(tried) => {
                let yields = match tried.expr.as_ref() {
                    Expr::MethodCall(call) => call.method.to_string().starts_with("yield_to"),
                    Expr::Call(call) => matches!(call.func.as_ref(), Expr::Path(path)
                        if path.path.segments.last().is_some_and(|last| last.ident.to_string().starts_with("yield_to"))),
                    _ => false,
                };
                if yields && let Some((id, span)) = self.add(expression.span(), false) {
                    let before = format!("if !crate::clauses::without({id}) {{ ");
                    self.edits.push(Around { span, before, after: " }".to_owned() });
                }
            }
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                let arguments = call.args.len();
                match name.as_str() {
                    "then" | "then_some" => self.condition(&call.receiver),
                    "min" | "max" if arguments == 1 => self.cap(call, expression),
                    "clamp" => self.cap(call, expression),
                    name if TAKE_A_CONDITION.contains(&name) => {
                        if let Some(Expr::Closure(closure)) = call.args.first() {
                            self.condition(&closure.body);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

impl Finder<'_> {
    fn cap(&mut self, call: &syn::ExprMethodCall, expression: &Expr) {
        let receiver = call.receiver.span().byte_range();
        if let Some((id, span)) = self.add(expression.span(), false) {
            self.edits.push(Around { span, before: "({ let uncapped = ".into(), after: " } })".into() });
            let after = format!("; if crate::clauses::without({id}) {{ uncapped.clone() }} else {{ uncapped");
            self.edits.push(Around { span: receiver, before: String::new(), after });
        }
    }
}

/// The text with what is around its parts: of those that begin at one place the longest first, of those that end there the shortest.
fn rewritten(text: &str, edits: &[Around]) -> String {
    let mut events: Vec<(usize, u8, usize, &str)> = Vec::new();
    for edit in edits {
        let length = edit.span.len();
        if !edit.before.is_empty() {
            events.push((edit.span.start, 1, usize::MAX - length, &edit.before));
        }
        events.push((edit.span.end, 0, length, &edit.after));
    }
    // Of two of the same part the one that was found first is around the other.
    events.reverse();
    events.sort_by_key(|(at, kind, length, _)| (*at, *kind, *length));
    let (mut out, mut from) = (String::new(), 0);
    for (at, _, _, more) in events {
        out.push_str(&text[from..at]);
        out.push_str(more);
        from = at;
    }
    out + &text[from..]
}

fn files(below: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", below.display());
    if below.is_file() {
        found.push(below.to_owned());
        return Ok(());
    }
    let mut all: Vec<PathBuf> =
        below.read_dir().map_err(told)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.sort();
    all.iter().try_for_each(|one| files(one, found))
}

/// Makes the copy, and the list of its clauses: a line each with its number, place, kind and text.
fn copy() -> Result<(), String> {
    let (root, mut all) = (pages::root(), Vec::new());
    let (source, copy) = (root.join("crates/analysis"), root.join(COPY));
    files(&source.join("src"), &mut all)?;
    files(&source.join("tests/labelled"), &mut all)?;
    let (mut list, mut number) = (String::new(), 0);
    for path in all {
        let below = path.strip_prefix(&source).map_err(|error| error.to_string())?;
        let mut text = pages::read(&path)?;
        let of_rules = below.strip_prefix("src").unwrap_or(below);
        let is_test = below.to_string_lossy().contains("tests");
        // Who is judged before whom is no clause, and without its end it has none.
        let of_order = of_rules.ends_with("precedence.rs");
        if !is_test && !of_order && LOOKED_AT.iter().any(|looked_at| of_rules.starts_with(looked_at)) {
            let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut finder = Finder {
                text: &text,
                first: number,
                clauses: Vec::new(),
                edits: Vec::new(),
                known: HashSet::new(),
            };
            finder.visit_file(&parsed);
            for clause in &finder.clauses {
                let kind = if clause.is_condition { "condition" } else { "cap" };
                let place = of_rules.display();
                list.push_str(&format!("{number}\t{place}:{}\t{kind}\t{}\n", clause.line, clause.text));
                number += 1;
            }
            text = rewritten(&text, &finder.edits);
        } else if below == Path::new("src/lib.rs") {
            text.push_str(SWITCHES);
        }
        let to = copy.join(below);
        if let Some(directory) = to.parent() {
            std::fs::create_dir_all(directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        pages::write(&to, &text)?;
    }
    pages::write(&copy.join("list"), &list)
}

/// Judges the cases of tuning seeds without each of the clauses that `names` are the places of, and writes what changes.
///
/// # Errors
/// When the copy cannot be made, or does not compile.
pub fn run(names: &[String]) -> Result<(), String> {
    copy()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let root = pages::root();
    let target = root.join(COPY).join("built");
    let test =
        "test --quiet --package ebbtide-analysis --test labelled -- --ignored --nocapture without_clauses";
    let step = Step::cargo("without clauses", test)
        .with(("RUSTC_WORKSPACE_WRAPPER", &own.to_string_lossy()))
        .with(("CARGO_TARGET_DIR", &target.to_string_lossy()))
        .with(("EBB_XTASK_CLAUSES", &root.join(COPY).to_string_lossy()))
        .with(("EBB_TEST_WITHOUT", &names.join(" ")));
    run_all(&[step])
}

/// Whether this program was called by cargo in place of the compiler; it then has that compile the copy, and says how it ended.
pub fn compiles_the_copy() -> Option<i32> {
    let copy = PathBuf::from(std::env::var_os("EBB_XTASK_CLAUSES")?);
    let mut arguments = std::env::args().skip(1);
    let compiler = arguments.next()?;
    let mut command = Command::new(compiler);
    for argument in arguments {
        match argument.strip_prefix("crates/analysis/") {
            Some(file) => command.arg(copy.join(file)).args(["--cfg", "clauses"]),
            None => command.arg(argument),
        };
    }
    let status = command.env_remove("EBB_XTASK_CLAUSES").status();
    Some(status.ok().and_then(|status| status.code()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_cap_and_yielding_is_a_clause_and_the_rest_stays() {
        let text = "fn f(a: f64) -> Option<f64> { facts.yield_to(X)?; if a > 1.0 && b.is_some_and(|b| b == 2) { None } else { Some(a.min(3.0).max(1.0)) } }";
        let mut finder =
            Finder { text, first: 5, clauses: Vec::new(), edits: Vec::new(), known: HashSet::new() };
        finder.visit_file(&syn::parse_file(text).expect("parses"));
        let found: Vec<&str> = finder.clauses.iter().map(|clause| clause.text.as_str()).collect();
        assert_eq!(
            found,
            [
                "facts.yield_to(X)?",
                "a > 1.0",
                "b.is_some_and(|b| b == 2)",
                "b == 2",
                "a.min(3.0).max(1.0)",
                "a.min(3.0)"
            ]
        );
        let rewritten = rewritten(text, &finder.edits);
        assert!(syn::parse_file(&rewritten).is_ok(), "{rewritten}");
        assert!(rewritten.contains("if !crate::clauses::without(5) { facts.yield_to(X)? };"), "{rewritten}");
        assert!(
            rewritten.contains("without(10) { uncapped.clone() } else { uncapped.min(3.0) } })"),
            "{rewritten}"
        );
    }
}
