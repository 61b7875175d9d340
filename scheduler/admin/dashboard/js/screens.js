/** All screens, in the order of the navigation; `group` heads those that follow. */

import { screen as activity } from "./screens/activity.js";
import { screen as ahead } from "./screens/ahead.js";
import { screen as blocked } from "./screens/blocked.js";
import { screen as buckets } from "./screens/buckets.js";
import { screen as lateness } from "./screens/lateness.js";
import { screen as letters } from "./screens/letters.js";
import { screen as nodes } from "./screens/nodes.js";
import { screen as now } from "./screens/now.js";
import { screen as recurring } from "./screens/recurring.js";
import { screen as relay } from "./screens/relay.js";
import { screen as settings } from "./screens/settings.js";
import { screen as task } from "./screens/task.js";
import { screen as tasks } from "./screens/tasks.js";
import { screen as timers } from "./screens/timers.js";

export const SCREENS = [
  { ...now, group: "Time" },
  ahead,
  lateness,
  buckets,
  { ...tasks, group: "Work" },
  task,
  blocked,
  letters,
  recurring,
  { ...timers, group: "Services" },
  relay,
  { ...nodes, group: "Cluster" },
  activity,
  settings,
];
