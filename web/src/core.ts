/**
 * What the first view needs. Every part that is loaded later imports this, so that the bundler puts all of it into one
 * file: otherwise it would make a file for each set of parts that share a module.
 */
import "./parts/bits";
import "./parts/later";
import "./parts/rows";
import "./parts/slots";
import "./shell/app";
import "./shell/dialogs";
import "./shell/lamp";
import "./shell/shown";
import "./state/board";
import "./state/clock";
import "./state/health";
import "./state/http";
import "./state/lamp";
import "./state/list";
import "./state/notices";
import "./state/prefs";
import "./state/route";
import "./state/series";
import "./state/text";
import "./views/now";
