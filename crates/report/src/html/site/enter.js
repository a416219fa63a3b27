"use strict";
// The token goes in one request's header, never in an address; what comes back is a cookie that scripts cannot read.
document.getElementById("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = document.getElementById("token").value.trim();
  const said = document.getElementById("said");
  try {
    const answer = await fetch("/enter", { headers: { Authorization: "Bearer " + token } });
    if (answer.ok) return location.reload();
    said.textContent = "That is not the token.";
  } catch {
    said.textContent = "The server does not answer, or the token has characters that no token has.";
  }
});
