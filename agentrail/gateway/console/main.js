// Begins the console. The token is taken out of the address here, before anything asks the server for anything.

import { start } from "./app.js";

start(window);
