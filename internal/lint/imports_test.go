package lint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace/"

// library lists the packages that a program with live collections may import. So may every
// package built on the library.
var library = []string{"bounds", "dataflow", "keyedstream", "keyedsingleton", "singleton", "optional", "slice"}

// core lists the packages that an operator package may import.
var core = []string{"bounds", "dataflow", "internal/cow", "internal/engine", "internal/engine/claims", "internal/engine/operators", "internal/engine/port", "internal/seal"}

// imports lists the packages of this module that each package may import outside its tests. A
// package that is not listed may import none.
var imports = map[string][]string{
	"dataflow":             {"bounds", "internal/cow", "internal/engine", "internal/engine/claims", "internal/engine/live", "internal/engine/lookup", "internal/engine/operators", "internal/engine/port", "internal/picture", "internal/seal"},
	"dataflow/recordings":  {"dataflow", "internal/engine", "internal/history", "internal/seal"},
	"dataflow/sim":         slices.Concat(core, []string{"dataflow/recordings", "dataflow/sim/linear", "internal/digest", "internal/engine/simulate", "internal/rerun"}),
	"dataflow/sim/linear":  {"internal/digest"},
	"dataflow/sim/simprop": slices.Concat(core, []string{"dataflow/sim", "dataflow/sim/linear", "internal/digest", "internal/rerun"}),
	"dataflow/serve":       slices.Concat(core, []string{"internal/engine/simulate"}),
	"dataflow/durable":     slices.Concat(core, []string{"dataflow/durable/journal", "internal/cbor", "internal/engine/codec", "internal/engine/identity", "internal/engine/logdriven", "internal/engine/lookup", "internal/fsync", "internal/history"}),
	"dataflow/inspect":     {"dataflow", "dataflow/durable", "internal/cbor", "internal/edge", "internal/keytext", "internal/picture"},
	"dataflow/window":      slices.Concat(core, []string{"internal/engine/windows"}),
	"dataflow/connect":     {"bounds", "dataflow", "dataflow/connect/internal/panics", "dataflow/durable/journal", "dataflow/window", "keyedstream"},

	"dataflow/connect/connecttest": {"dataflow", "dataflow/connect", "dataflow/durable", "dataflow/durable/journal", "keyedstream"},

	"dataflow/connect/file":      {"dataflow", "dataflow/connect", "internal/fsync"},
	"dataflow/connect/jetstream": {"dataflow", "dataflow/connect"},
	"dataflow/connect/kafka":     {"dataflow", "dataflow/connect"},
	"dataflow/connect/postgres":  {"dataflow", "dataflow/connect"},
	"dataflow/connect/webhook":   {"dataflow/connect", "dataflow/connect/internal/panics", "internal/edge", "internal/netguard"},

	"dataflow/inspect/internal/figures": {"dataflow", "dataflow/durable", "dataflow/inspect"},
	"dataflow/inspect/prominspect":      {"dataflow/inspect", "dataflow/inspect/internal/figures"},
	"dataflow/inspect/otelinspect":      {"dataflow/inspect", "dataflow/inspect/internal/figures"},

	"dataflow/durable/durabletest": slices.Concat(core, []string{"dataflow/durable", "internal/engine/identity", "internal/engine/logdriven", "internal/rerun", "dataflow/durable/journal"}),

	"keyedstream":    slices.Concat(core, []string{"internal/engine/machines"}),
	"keyedsingleton": core,
	"singleton":      core,
	"optional":       core,
	"slice":          core,

	"internal/cow":      {"internal/keyed"},
	"internal/sse":      {"internal/plain"},
	"internal/weburl":   {"internal/plain"},
	"internal/natstest": {"internal/freeport", "internal/overlap"},
	"internal/picture":  {"internal/plain"},
	"internal/history":  {"internal/cbor", "internal/engine", "internal/engine/codec"},

	// These are in addition to the imports between layers of the engine, see layers_test.go.
	"internal/engine":           {"internal/digest", "internal/keyed", "internal/seal"},
	"internal/engine/claims":    {"internal/deep", "internal/digest"},
	"internal/engine/codec":     {"internal/cow", "internal/seal"},
	"internal/engine/state":     {"internal/cow", "internal/keyed", "internal/timer"},
	"internal/engine/logdriven": {"internal/keyed"},
	"internal/engine/machines":  {"internal/digest", "internal/keyed"},
	"internal/engine/operators": {"internal/cow", "internal/digest", "internal/keyed", "internal/timer"},
	"internal/engine/port":      {"internal/digest", "internal/keyed"},
	"internal/engine/windows":   {"internal/digest", "internal/keyed"},

	"dataflow/durable/natslog":             {"dataflow/durable/journal", "dataflow/durable/internal/lockfile", "dataflow/durable/internal/membership"},
	"dataflow/durable/disklog":             {"dataflow/durable/journal", "dataflow/durable/internal/lockfile"},
	"dataflow/durable/historycmd":          {"dataflow", "dataflow/durable", "internal/keytext"},
	"dataflow/durable/monitor":             {"dataflow/durable", "dataflow/durable/journal", "internal/fsync"},
	"dataflow/durable/journal/journaltest": {"dataflow/durable/journal"},

	"examples/internal/page": {"dataflow"},

	"examples/quorum":    library,
	"examples/quotes":    library,
	"examples/counter":   library,
	"examples/locks":     library,
	"examples/ratelimit": library,
	"examples/replicas":  library,
	"examples/fraud":     slices.Concat(library, []string{"dataflow/window"}),
	"examples/payments":  slices.Concat(library, []string{"dataflow/durable", "dataflow/durable/disklog"}),
	"examples/upgrade":   slices.Concat(library, []string{"dataflow/durable", "dataflow/durable/disklog"}),
	"examples/agent":     {"agentproto", "agentproto/conversation", "agentproto/form", "agentproto/host", "agentproto/mcptools", "agentproto/toolserver"},
	"examples/persecond": library,
	"examples/sessions":  slices.Concat(library, []string{"dataflow/window"}),
	"examples/orders":    slices.Concat(library, []string{"dataflow/connect", "dataflow/connect/kafka", "dataflow/connect/postgres", "dataflow/durable", "dataflow/durable/disklog", "dataflow/window"}),
	"examples/account":   {"agentproto/toolserver", "internal/edge", "internal/exampletools/account", "internal/idp"},
	"examples/deposits":  slices.Concat(library, []string{"dataflow/durable", "dataflow/durable/natslog", "dataflow/serve"}),

	"internal/model":    slices.Concat(library, []string{"dataflow/sim", "internal/digest", "internal/engine", "internal/engine/simulate", "internal/seal"}),
	"internal/script":   slices.Concat(library, []string{"dataflow/sim"}),
	"internal/mutation": {},

	"internal/mutation/generate": {},

	"agentproto":                      slices.Concat(library, []string{"agentproto/form", "agentproto/internal/handover", "agentproto/internal/ids", "internal/plain", "internal/weburl"}),
	"agentproto/form":                 {"internal/plain"},
	"agentproto/conversation":         slices.Concat(library, []string{"agentproto", "agentproto/internal/handover", "agentproto/internal/ids"}),
	"agentproto/conversation/openai":  {"agentproto", "agentproto/conversation"},
	"agentproto/host/promhost":        {"agentproto/host"},
	"agentproto/agentinspect":         slices.Concat(library, []string{"agentproto", "agentproto/form", "agentproto/conversation", "agentproto/host", "dataflow/inspect", "internal/edge", "internal/weburl", "internal/sse"}),
	"agentproto/follow":               {"agentproto", "agentproto/conversation", "agentproto/host", "internal/edge", "internal/plain", "internal/weburl", "internal/sse"},
	"agentproto/internal/trail":       {"agentproto"},
	"agentproto/internal/tracing":     {"agentproto"},
	"agentproto/otelagent":            {"agentproto", "agentproto/internal/tracing"},
	"agentproto/internal/mcptasks":    {},
	"agentproto/mcpserver":            {"agentproto", "agentproto/form", "agentproto/host", "agentproto/internal/mcptasks", "internal/edge"},
	"agentproto/internal/mcpfixtures": {"agentproto", "agentproto/form", "agentproto/host", "agentproto/mcpserver", "agentproto/toolserver", "internal/edge"},
	"agentproto/internal/mcpclient":   {"agentproto", "agentproto/host", "agentproto/mcptools", "agentproto/toolserver"},
	"agentproto/internal/handover":    {},
	"agentproto/internal/ids":         {},
	"agentproto/internal/leak":        {},
	"agentproto/internal/authorize":   library,
	"agentproto/internal/vault":       {"internal/fsync"},
	"agentproto/internal/intake":      {"agentproto/internal/purpose"},
	"agentproto/internal/pages":       {},
	"agentproto/internal/running":     {"agentproto/internal/authorize", "agentproto/internal/tools", "dataflow", "dataflow/durable", "dataflow/durable/disklog"},
	"agentproto/internal/migrate":     {"agentproto", "agentproto/internal/envelope", "agentproto/internal/handover", "agentproto/internal/running", "agentproto/internal/tools", "internal/edge", "internal/netguard"},
	"agentproto/internal/oauth":       {"agentproto/internal/authorize", "agentproto/internal/leak", "agentproto/internal/pages", "agentproto/internal/running", "agentproto/internal/vault", "internal/edge"},
	"agentproto/internal/outgoing":    {"agentproto", "agentproto/internal/tracing", "agentproto/internal/leak", "agentproto/internal/tools", "internal/edge", "internal/netguard"},
	"agentproto/internal/values":      {"agentproto"},
	"agentproto/internal/tools":       slices.Concat(library, []string{"agentproto", "agentproto/form", "agentproto/internal/authorize", "agentproto/internal/handover"}),
	"agentproto/toolserver":           {"agentproto", "agentproto/form", "agentproto/internal/tracing", "agentproto/internal/authorize", "agentproto/internal/intake", "agentproto/internal/leak", "agentproto/internal/migrate", "agentproto/internal/oauth", "agentproto/internal/outgoing", "agentproto/internal/purpose", "agentproto/internal/running", "agentproto/internal/tools", "agentproto/internal/values", "agentproto/internal/vault", "internal/edge", "internal/netguard"},
	"agentproto/internal/supervise":   {"internal/edge", "internal/plain"},
	"agentproto/internal/inprocess":   {},
	"agentproto/mcptools":             {"agentproto", "agentproto/form", "agentproto/internal/inprocess", "agentproto/internal/mcptasks", "agentproto/toolserver", "internal/edge", "internal/netguard"},
	"agentproto/conform":              slices.Concat(library, []string{"agentproto", "internal/edge", "internal/freeport"}),
	"internal/exampletools":           {"agentproto", "agentproto/toolserver", "internal/edge"},
	"internal/idp":                    {"internal/edge"},
	"internal/exampletools/account":   {"agentproto", "agentproto/toolserver"},
	"agentproto/internal/undertest":   {"agentproto/conform", "agentproto/toolserver", "internal/edge", "internal/freeport", "internal/idp"},
	"agentproto/conform/selftest":     {"agentproto/conform", "agentproto/internal/undertest", "internal/plain"},
	"agentproto/agui":                 {"agentproto/conversation", "agentproto/follow", "agentproto/host", "internal/plain", "internal/sse"},

	// Packages of the runtime.
	"agentproto/host":                        slices.Concat(library, []string{"agentproto", "agentproto/form", "agentproto/internal/tracing", "agentproto/conversation", "agentproto/host/internal/callback", "agentproto/host/internal/capability", "agentproto/host/internal/discovery", "agentproto/host/internal/dispatch", "agentproto/host/internal/display", "agentproto/host/internal/memlimit", "agentproto/host/internal/migration", "agentproto/host/internal/peer", "agentproto/host/internal/queue", "agentproto/host/internal/quota", "agentproto/host/internal/quote", "agentproto/host/internal/recent", "agentproto/host/internal/subscriptions", "agentproto/host/internal/tally", "agentproto/internal/supervise", "agentproto/internal/trail", "dataflow/durable", "dataflow/durable/journal", "dataflow/inspect", "internal/edge", "internal/freeport", "internal/plain", "internal/weburl", "agentproto/host/internal/live", "agentproto/host/internal/watch"}),
	"agentproto/host/internal/callback":      {"agentproto", "agentproto/form", "agentproto/internal/tracing", "agentproto/conversation", "agentproto/host/internal/capability", "agentproto/host/internal/discovery", "agentproto/host/internal/display", "agentproto/host/internal/peer", "agentproto/host/internal/quota", "agentproto/host/internal/quote", "agentproto/host/internal/subscriptions", "agentproto/host/internal/tally", "dataflow/durable/journal", "internal/edge"},
	"agentproto/host/internal/capability":    {"agentproto", "agentproto/internal/ids", "agentproto/internal/tracing"},
	"agentproto/host/internal/discovery":     {"agentproto", "agentproto/host/internal/peer", "agentproto/host/internal/quote", "internal/edge"},
	"agentproto/host/internal/dispatch":      {"agentproto", "agentproto/internal/tracing", "agentproto/host/internal/peer", "agentproto/host/internal/quote", "agentproto/host/internal/subscriptions", "agentproto/host/internal/tally", "agentproto/internal/purpose", "agentproto/internal/trail"},
	"agentproto/host/internal/display":       {"agentproto", "agentproto/host/internal/capability", "agentproto/host/internal/queue", "agentproto/host/internal/quote"},
	"agentproto/host/internal/live":          {"agentproto/conversation"},
	"agentproto/host/internal/memlimit":      {},
	"agentproto/host/internal/migration":     slices.Concat(library, []string{"agentproto", "agentproto/conversation", "agentproto/host/internal/callback", "agentproto/host/internal/capability", "agentproto/host/internal/discovery", "agentproto/host/internal/display", "agentproto/host/internal/peer", "agentproto/host/internal/quote", "agentproto/host/internal/subscriptions", "agentproto/host/internal/tally", "agentproto/internal/envelope", "agentproto/internal/handover", "agentproto/internal/purpose", "dataflow/durable", "internal/edge"}),
	"agentproto/host/internal/peer":          {"agentproto", "agentproto/internal/tracing", "agentproto/host/internal/capability", "agentproto/host/internal/quote", "agentproto/host/internal/tally", "agentproto/internal/purpose", "agentproto/internal/supervise", "internal/edge", "internal/netguard", "agentproto/internal/inprocess"},
	"agentproto/host/internal/queue":         {},
	"agentproto/host/internal/quota":         {"agentproto", "agentproto/host/internal/capability", "agentproto/host/internal/recent"},
	"agentproto/host/internal/quote":         {"agentproto"},
	"agentproto/host/internal/recent":        {},
	"agentproto/host/internal/subscriptions": {"agentproto", "agentproto/host/internal/recent"},
	"agentproto/host/internal/tally":         {},
	"agentproto/host/internal/watch":         {"agentproto"},

	"cmd/millrace": slices.Concat(library, []string{
		"agentproto", "agentproto/agentinspect", "agentproto/agui", "agentproto/conform", "agentproto/conversation", "agentproto/conversation/openai", "agentproto/follow", "agentproto/form", "agentproto/host", "agentproto/host/promhost", "agentproto/mcpserver", "agentproto/mcptools", "agentproto/toolserver",
		"dataflow/durable", "dataflow/durable/disklog", "dataflow/durable/historycmd", "dataflow/durable/journal", "dataflow/durable/monitor", "dataflow/durable/natslog", "dataflow/inspect", "dataflow/inspect/prominspect",
		"internal/edge", "internal/exampletools", "internal/freeport", "internal/fsync", "internal/history", "internal/netguard", "internal/plain", "internal/weburl",
	}),
}

// TestImports checks the direction of imports: bounds and the engine at the bottom, operators
// side by side, protocols and commands on top.
func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.dir == "bench" || strings.HasPrefix(f.dir, "bench/") {
			continue
		}
		for _, spec := range f.Imports {
			p, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if ok && !slices.Contains(imports[f.dir], p) && !slices.Contains(layers[f.dir], p) {
				t.Errorf("%s imports %s: see the table in this test", f.path, p)
			}
		}
	}
}

// users maps each package for users of another library to that library, which its examples may import.
var users = map[string]string{
	"dataflow/sim/simprop":         "github.com/leanovate/gopter",
	"dataflow/connect/jetstream":   "github.com/nats-io",
	"dataflow/connect/postgres":    "github.com/jackc/pgx",
	"dataflow/inspect/prominspect": "github.com/prometheus/client_golang",
	"dataflow/inspect/otelinspect": "go.opentelemetry.io/otel",
	"agentproto/otelagent":         "go.opentelemetry.io/otel",
	"agentproto/host/promhost":     "github.com/prometheus/client_golang",
	"dataflow/durable/natslog":     "github.com/nats-io",
	"dataflow/connect/kafka":       "github.com/twmb/franz-go",

	"dataflow/connect/kafka/kafkatest": "github.com/twmb/franz-go",
}

// TestExamplesImport limits the imports of examples to what a reader has: the standard library,
// and this module without its internals. Examples of a package in users may import its library too.
func TestExamplesImport(t *testing.T) {
	for _, f := range sources(t) {
		if f.name != "example_test.go" && !strings.HasPrefix(f.name, "example_") || !f.test {
			continue
		}
		for _, spec := range f.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			if of := users[f.dir]; of != "" && strings.HasPrefix(p, of) {
				continue
			}
			first, _, _ := strings.Cut(p, "/")
			if mine := strings.HasPrefix(p, module); strings.Contains(first, ".") && !mine || strings.Contains(p, "/internal/") {
				t.Errorf("%s imports %s", f.path, p)
			}
		}
	}
}

// TestShipped keeps test code out of the command: the OAuth provider, the server whose tools need
// it, and the servers and peers that play a part in tests.
func TestShipped(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"cmd/millrace").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"agentproto/host") {
		t.Errorf("the command links no host: does this test look at the right names?")
	}
	for _, p := range linked {
		for _, test := range []string{module + "internal/idp", module + "internal/exampletools/account", module + "agentproto/internal/undertest", "github.com/zitadel", "net/http/httptest"} {
			if p == test || strings.HasPrefix(p, test+"/") {
				t.Errorf("the command links %s; find out why with: go mod why %s", p, p)
			}
		}
	}
}

// TestLinks checks that a program that uses only live collections stays small: it links neither
// an HTTP stack nor a message system.
func TestLinks(t *testing.T) {
	args := []string{"list", "-deps"}
	for _, p := range library {
		if slices.ContainsFunc(sources(t), func(f source) bool { return f.dir == p }) {
			args = append(args, module+p)
		}
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for p := range strings.Lines(string(out)) {
		p = strings.TrimSpace(p)
		for _, heavy := range []string{"net", "net/http", "crypto/tls", "encoding/json", "github.com/nats-io", "github.com/prometheus", "go.opentelemetry.io", "database/sql", "github.com/anishathalye"} {
			if p == heavy || strings.HasPrefix(p, heavy+"/") && strings.Contains(heavy, ".") {
				t.Errorf("the library links %s; find out why with: go mod why %s", p, p)
			}
		}
	}
}
