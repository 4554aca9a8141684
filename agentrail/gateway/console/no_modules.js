// Run only by browsers that know no modules, so it is written for them: shows the one sentence of the page.
document.getElementById("no-modules").removeAttribute("hidden");
