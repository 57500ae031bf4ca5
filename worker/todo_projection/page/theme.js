// The theme that was chosen, before anything is drawn; without a choice the system's. Not a module: those run too late.
{
  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is off: the system's theme it is
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (name) => {
    document.documentElement.dataset.theme = name ?? (dark.matches ? "dark" : "light");
  };
  show(chosen());
  dark.addEventListener("change", () => show(chosen()));
  addEventListener("theme", () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    show(other);
    try {
      localStorage.setItem("theme", other);
    } catch {
      // it holds for this page then
    }
  });
}
