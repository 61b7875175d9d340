/** The start: who looks, the frame, the screens in it, the stream of figures. */

import { ask } from "./api.js";
import { beginKeys } from "./keys.js";
import { listen } from "./live.js";
import { route } from "./router.js";
import { SCREENS } from "./screens.js";
import { setWhoami } from "./session.js";
import { makeShell } from "./shell.js";
import { beginTheme } from "./theme.js";

beginTheme();
const shell = makeShell(SCREENS);
try {
  setWhoami(await ask("whoami"));
  shell.begin();
  beginKeys(SCREENS, shell.shown);
  route(SCREENS, shell.show);
  listen();
} catch (error) {
  shell.refuse(error);
}
