/** ocr/v1 by Mistral's OCR API: one request a call, nothing repeated, no word of the service handed on. */
import { type Arguments, type Call, Failure, type InputFile, request, serve, Unsent } from "handler_connector";
import { type Media, mediaOf } from "./formats.ts";
import { pagesOf } from "./pages.ts";

const URL = "https://api.mistral.ai/v1/ocr";
const MAX_ANSWER_BYTES = 8 * 2 ** 20;
const MODEL = Deno.env.get("MISTRAL_OCR_MODEL") ?? "mistral-ocr-latest";
const TIMEOUT_MS = Math.min(Number(Deno.env.get("OCR_TIMEOUT_SECONDS") ?? "100"), 110) * 1000;

serve({ ocr_extract: extract });

async function extract(args: Arguments, call: Call): Promise<Arguments> {
  if (Array.isArray(args.languages)) known(args.languages.map(String));
  const data = await (args.path as InputFile).read();
  const media = mediaOf(data);
  const answer = await asked(media, data, call);
  return { pages: pagesOf(answer) };
}

/** A hint that the service does not take: but a code that no language has is nobody's. */
function known(codes: string[]): void {
  const names = new Intl.DisplayNames("en", { type: "language", fallback: "none" });
  if (codes.length && !codes.some((code) => names.of(code))) {
    throw new Failure("unavailable", "no language has any of the codes given");
  }
}

/** The service's answer, parsed; Failure for everything that is none. The gate adds the key on the way. */
async function asked(media: Media, data: Uint8Array<ArrayBuffer>, call: Call): Promise<unknown> {
  let response: Response;
  try {
    response = await request("POST", URL, {
      headers: { "content-type": "application/json", "accept": "application/json" },
      body: JSON.stringify({ model: MODEL, document: document(media, data), include_image_base64: false }),
      call,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      most: MAX_ANSWER_BYTES,
    });
  } catch (fault) {
    throw new Failure("unavailable", unreached(fault));
  }
  if (response.status !== 200) throw refused(response.status);
  try {
    return await response.json();
  } catch {
    throw new Failure("unavailable", "the answer is not JSON");
  }
}

function document(media: Media, data: Uint8Array<ArrayBuffer>): Record<string, string> {
  const url = `data:${media};base64,${data.toBase64()}`;
  return media === "application/pdf"
    ? { type: "document_url", document_url: url }
    : { type: "image_url", image_url: url };
}

/** Why there is no answer, in words of ours or the gate's, which quote nothing that was sent or said. */
function unreached(fault: unknown): string {
  if (fault instanceof Unsent) return `no answer: ${fault.message}`;
  const name = fault instanceof Error ? fault.name : "";
  if (name === "TimeoutError") return `no answer within ${TIMEOUT_MS / 1000} s`;
  return name === "AbortError" ? "nobody waits for it any more" : "api.mistral.ai cannot be reached";
}

function refused(status: number): Failure {
  switch (status) {
    case 400:
    case 415:
    case 422:
      return new Failure("unsupported_format", `the service answered ${status}`);
    case 413:
      return new Failure("too_large", "the service answered 413");
    case 401:
    case 403:
      return new Failure("unavailable", `the service refuses the key (${status})`);
    case 404:
      return new Failure("unavailable", `the service does not know the model ${MODEL} (404)`);
    case 429:
      return new Failure("unavailable", "the service takes no more for now: a quota or a rate is used up (429)");
    default:
      return new Failure("unavailable", `the service answered ${status}`);
  }
}
