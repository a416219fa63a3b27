// What axe, which was loaded before this, finds on the page as it stands, one line for each element.
(async () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const wrong = found.violations.flatMap((rule) =>
    rule.nodes.slice(0, 5).map((node) => rule.id + ": " + node.html.slice(0, 160) + " " + node.failureSummary.replace(/\s+/g, " ")),
  );
  if (document.documentElement.scrollWidth > innerWidth)
    wrong.push("the page is " + document.documentElement.scrollWidth + " px wide in a window of " + innerWidth);
  if (!found.passes.length) wrong.push("no rule of axe applied");
  return wrong;
})()
