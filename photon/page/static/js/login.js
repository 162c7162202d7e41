// Gives the token once, for a cookie that no script can read.

const form = document.getElementById("login");
const problem = document.getElementById("problem");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  try {
    const answer = await fetch("api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: form.elements.token.value }),
    });
    if (answer.ok) location.replace("./");
    else problem.textContent = (await answer.json()).error;
  } catch (error) {
    problem.textContent = `The server does not answer: ${error.message}`;
  }
});
