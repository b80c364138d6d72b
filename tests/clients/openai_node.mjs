// Run beside an installed `openai` package: node openai_node.mjs URL MODEL prints what came as JSON.
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "local", maxRetries: 0 });
const asked = {
  model,
  messages: [{ role: "user", content: "the quick brown fox" }],
  max_tokens: 12,
  temperature: 0,
};
const whole = await client.chat.completions.create(asked);
let streamed = "";
let usage = null;
const stream = await client.chat.completions.create({
  ...asked,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
const schema = {
  type: "object",
  properties: { sure: { type: "boolean" } },
  required: ["sure"],
  additionalProperties: false,
};
const formed = await client.chat.completions.create({
  ...asked,
  max_tokens: 500,
  response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
});
const vectors = await client.embeddings.create({ model, input: ["a policy"] });
let refused = null;
try {
  await client.chat.completions.create({ ...asked, mirostat: 2 });
} catch (error) {
  refused = { kind: error.constructor.name, status: error.status, param: error.param };
}
console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    tokens: whole.usage.completion_tokens,
    streamed,
    streamed_tokens: usage.completion_tokens,
    formed: JSON.parse(formed.choices[0].message.content),
    vector: vectors.data[0].embedding.length,
    refused,
  }),
);
