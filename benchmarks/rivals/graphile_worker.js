// A worker or a client of Graphile Worker, or its migrations, by the kind it is told. It speaks with
// the benchmark as program.py says: one JSON argument, one JSON object an event, one command a line.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");
const { performance } = require("node:perf_hooks");

const spec = JSON.parse(process.argv[2]);
const { Logger, makeWorkerUtils, run } = require(`${spec.modules}/graphile-worker`);

const CHUNK = 5_000;
const SLOT_BYTES = 16;
// In SQL, as its documents do it for many jobs; no job is sent back.
const ADD_JOBS = `
SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
  SELECT ('noop', payload, NULL, due, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
  FROM unnest($1::json[], $2::timestamptz[]) AS jobs (payload, due)))`;

const connection = { connectionString: spec.url };
// What it tells of each job is left out; of errors it is not.
const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(`${message}\n`);
});
const commands = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function tell(event, values = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...values })}\n`);
}

function wallS() {
  return (performance.timeOrigin + performance.now()) / 1000;
}

async function told(command) {
  const { value } = await commands.next();
  return value === command;
}

/** Notes starts in the file that records.py reads: many at a time, where many come at a time. */
function recorder() {
  const file = fs.openSync(spec.records, "r+");
  let written = 0;
  let waiting = [];
  function write() {
    const slots = Math.min(waiting.length / 2, spec.slots - written);
    fs.writeSync(file, new Float64Array(waiting), 0, slots * SLOT_BYTES, written * SLOT_BYTES);
    written += slots;
    waiting = [];
  }
  return (number) => {
    if (!waiting.length) setImmediate(write);
    waiting.push(number, wallS());
  };
}

async function work() {
  const note = recorder();
  const runner = await run({
    preset: {
      worker: {
        ...connection,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        pollInterval: 100,
      },
    },
    logger,
    noHandleSignals: true,
    parsedCronItems: [],
    taskList: { noop: (payload) => note(payload.number) },
  });
  tell("ready");
  await told("stop");
  await runner.stop();
}

async function enqueue() {
  const { load } = spec;
  const utils = await makeWorkerUtils({ ...connection, logger });
  await utils.withPgClient(async (client) => {
    tell("ready");
    if (!(await told("go"))) return;
    const beganS = wallS();
    const size = load.pace ? Math.max(1, Math.min(CHUNK, Math.trunc(load.pace * spec.tick_s))) : CHUNK;
    for (let first = 0; first < load.count; first += size) {
      const aheadS = load.pace ? beganS + first / load.pace - wallS() : 0;
      if (aheadS > 0) await new Promise((resolve) => setTimeout(resolve, aheadS * 1000));
      const payloads = [];
      const due = [];
      for (let each = first; each < Math.min(load.count, first + size); each += 1) {
        payloads.push(JSON.stringify({ number: load.first + each, note: spec.note }));
        const laterS = load.rate ? each / load.rate : 0;
        const dueMs = Math.trunc((load.due_s + laterS) * 1000);
        due.push(load.due_s ? new Date(dueMs).toISOString() : null);
      }
      await client.query(ADD_JOBS, [payloads, due]);
    }
    tell("done", { began_s: beganS, ended_s: wallS(), due_s: load.due_s });
  });
  await utils.release();
}

async function migrate() {
  const utils = await makeWorkerUtils({ ...connection, logger });
  await utils.migrate();
  await utils.release();
  tell("done");
}

({ worker: work, client: enqueue, migrate })[spec.kind]().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  },
);
