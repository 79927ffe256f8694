import { Failure } from "handler_connector";

const PLACEHOLDER = /!\[[^\]\n]*\]\([^)\n]*\)/g; // where a picture of the page stood

/** The pages of an answer in their order; Failure where it is not as documented. */
export function pagesOf(answer: unknown): { text: string }[] {
  const pages = field(answer, "pages");
  if (!Array.isArray(pages) || !pages.length) throw strange("no pages");
  return pages.map((page) => {
    const [index, markdown] = [field(page, "index"), field(page, "markdown")];
    if (typeof index !== "number" || typeof markdown !== "string") throw strange("a page without text or number");
    return { index, text: markdown.replaceAll(PLACEHOLDER, "").trim() };
  }).sort((one, other) => one.index - other.index).map(({ text }) => ({ text }));
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function strange(why: string): Failure {
  return new Failure("unavailable", `the answer is not as documented: ${why}`);
}
