package promhost_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/host/promhost"
	"github.com/millrace/millrace/dataflow/inspect/prominspect"
)

// A told is a runtime with invented figures.
type told host.Stats

func (s told) Stats() host.Stats { return host.Stats(s) }

// TestCollector gives each counter a distinct value and checks that all are collected, for two tool servers
// and for none.
func TestCollector(t *testing.T) {
	counts := func(first uint64) (c host.Counts) {
		for i := range reflect.TypeFor[host.Counts]().NumField() {
			reflect.ValueOf(&c).Elem().Field(i).SetUint(first + uint64(i))
		}
		return c
	}
	rt := told{
		Counts: counts(1), Others: counts(101), Toolsets: map[string]host.Counts{"http://a.test": counts(201), "http://b.test/\xff": counts(301)},
		Models: map[string]conversation.ModelCounts{
			"big":   {Requests: 1001, Failures: 1002, Fallbacks: 1003, Usage: conversation.Usage{Input: 1004, Cached: 1005, Output: 1006}},
			"b\xff": {Requests: 1007},
		},
		Prompts: 1, Memory: host.Filled{Bytes: 2, Bound: 3}, Bodies: host.Filled{Bytes: 4, Bound: 5},
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promhost.Collector(rt))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[float64]bool)
	for _, f := range families {
		for _, m := range f.Metric {
			seen[m.GetCounter().GetValue()+m.GetGauge().GetValue()] = true
		}
	}
	for _, first := range []int{1, 101, 201, 301} {
		n := reflect.TypeFor[host.Counts]().NumField()
		if first == 1 {
			n = 5 // the gauges
		}
		for i := range n {
			if !seen[float64(first+i)] {
				t.Errorf("there is no value %d", first+i)
			}
		}
	}
	for n := 1001.0; n <= 1007; n++ {
		if !seen[n] {
			t.Errorf("there is no value %v of a model", n)
		}
	}
	want := `# HELP millrace_calls_total Calls that were resolved.
# TYPE millrace_calls_total counter
millrace_calls_total{outcome="failure",toolset=""} 104
millrace_calls_total{outcome="failure",toolset="http://a.test"} 204
millrace_calls_total{outcome="failure",toolset="http://b.test/` + "\uFFFD" + `"} 304
millrace_calls_total{outcome="result",toolset=""} 103
millrace_calls_total{outcome="result",toolset="http://a.test"} 203
millrace_calls_total{outcome="result",toolset="http://b.test/` + "\uFFFD" + `"} 303
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "millrace_calls_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	rt.Memory.Bound, rt.Bodies.Bound = 0, 0
	if n := testutil.CollectAndCount(promhost.Collector(rt), "millrace_memory_limit_bytes", "millrace_bodies_limit_bytes"); n != 0 {
		t.Errorf("there are %d bounds, and were none", n)
	}
}

// TestComment checks that the package comment lists every metric.
func TestComment(t *testing.T) {
	comment, err := os.ReadFile("promhost.go")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(comment), "\npackage ")
	descs := make(chan *prometheus.Desc, 100)
	promhost.Collector(told{}).Describe(descs)
	close(descs)
	for d := range descs {
		name := regexp.MustCompile(`"(millrace\w+)"`).FindStringSubmatch(d.String())[1]
		if !strings.Contains(text, name+" ") {
			t.Errorf("the comment has no %s", name)
		}
	}
}

// answer is a tool server that sends each result at once.
func answer(t *testing.T) *httptest.Server {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/.well-known/rap-toolset":
			fmt.Fprintf(w, `{"name":"greeter","endpoint":"%s/invoke","tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}`, server.URL)
		case "/invoke":
			call, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			text := "Hello!"
			result, _ := agentproto.Encode(&agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
			go func() {
				if resp, err := http.Post(call.CallbackURL, "application/json", strings.NewReader(string(result))); err == nil {
					resp.Body.Close()
				}
			}()
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestRuntime collects the metrics of a runtime in memory and of its flow in one registry.
func TestRuntime(t *testing.T) {
	server := answer(t)
	rt, err := host.Start(t.Context(), host.Options{Toolsets: []string{server.URL}, Bounds: host.Bounds{Memory: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"greet", "greet", "sing"} {
		key, err := rt.Call(t.Context(), host.Request{GroupID: "one", Operation: operation, Arguments: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Await(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := rt.Stop(t.Context()); err != nil { // after which all effects are counted
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promhost.Collector(rt), prominspect.Collector(rt.Flow(), prominspect.Options{Name: "runtime"}))
	want := `# HELP millrace_bodies_limit_bytes Messages that may be read or taken in at once.
# TYPE millrace_bodies_limit_bytes gauge
millrace_bodies_limit_bytes 6.7108864e+07
# HELP millrace_calls_made_total Calls that were made, rejected ones included.
# TYPE millrace_calls_made_total counter
millrace_calls_made_total{toolset=""} 1
millrace_calls_made_total{toolset="` + server.URL + `"} 2
# HELP millrace_calls_total Calls that were resolved.
# TYPE millrace_calls_total counter
millrace_calls_total{outcome="failure",toolset=""} 1
millrace_calls_total{outcome="failure",toolset="` + server.URL + `"} 0
millrace_calls_total{outcome="result",toolset=""} 0
millrace_calls_total{outcome="result",toolset="` + server.URL + `"} 2
# HELP millrace_memory_limit_bytes Memory that may be in use: when nine tenths are, no new calls are taken.
# TYPE millrace_memory_limit_bytes gauge
millrace_memory_limit_bytes 1.073741824e+09
# HELP millrace_prompts_open What users are asked by this process.
# TYPE millrace_prompts_open gauge
millrace_prompts_open 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "millrace_bodies_limit_bytes", "millrace_calls_made_total", "millrace_calls_total", "millrace_memory_limit_bytes", "millrace_prompts_open"); err != nil {
		t.Error(err)
	}
	const most = 500 // a scrape must stay small
	if n, err := testutil.GatherAndCount(registry); err != nil || n > most || n < 100 {
		t.Errorf("there are %d series, %v", n, err)
	}
}
