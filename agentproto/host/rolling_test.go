package host

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// A rolling is a tool server that is being replaced. Each request reaches a process of the previous or of the next version, which
// have different tools.
type rolling struct {
	*toolServer
	versions [2]string // of the manifest
	n        atomic.Int32
	only     atomic.Bool // only the next version is left
}

func (r *rolling) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if req.URL.Path != discovery.Path {
		r.toolServer.ServeHTTP(rw, req)
		return
	}
	i := r.n.Add(1) % 2
	if r.only.Load() {
		i = 1
	}
	fmt.Fprint(rw, r.versions[i])
}

// TestN77_TwoVersionsUnderWay opens threads while a tool server has two sets of tools, one in each of its processes. It catches a
// thread whose tools change later, or that mixes the two sets. It also catches a call of a removed tool that is not made: the
// tool server has to refuse it.
func TestN77_TwoVersionsUnderWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := &rolling{toolServer: w.tool("unused.test")}
		tool.base = "http://rolling.test"
		for i, names := range [][]string{{"old", "both"}, {"new", "both"}} {
			var list []string
			for _, name := range names {
				list = append(list, fmt.Sprintf(`{"name":%q,"description":"version %d","inputSchema":{"type":"object"}}`, name, i))
			}
			tool.versions[i] = fmt.Sprintf(`{"name":"set","endpoint":"http://rolling.test/invoke","tools":[%s]}`, strings.Join(list, ","))
		}
		w.host("rolling.test", tool)
		tool.ack = func(_ int, rw http.ResponseWriter, inv *agentproto.Invocation) {
			if tool.only.Load() && inv.Operation == "old" {
				http.Error(rw, "there is no such tool", http.StatusNotFound)
			}
		}
		w.start(tool.base)
		first := map[string]string{} // the tools of each thread
		for i := range 20 {
			thread := fmt.Sprint("s", i)
			first[thread], _ = w.offered(thread)
			w.pass(2 * time.Second)
		}
		found := map[string]int{}
		for _, names := range first {
			found[names]++
		}
		if len(found) != 2 || found["old both"] == 0 || found["new both"] == 0 {
			t.Fatalf("threads have %v", found)
		}
		tool.only.Store(true)
		for range 3 {
			for thread, names := range first {
				if again, problems := w.offered(thread); again != names || problems != "" {
					t.Fatalf("%s had %q, and has %q, %s", thread, names, again, problems)
				}
				w.pass(time.Minute)
			}
		}
		for thread, names := range first {
			of := strings.Fields(names)
			for _, name := range []string{"old", "new", "both"} {
				got, _ := w.try(thread, name)
				switch {
				case !slices.Contains(of, name):
					if !strings.Contains(got, "there is no tool") {
						t.Errorf("%s of a thread with %q: %q", name, names, got)
					}
				case name == "old":
					if !strings.HasPrefix(got, "Error: ") || strings.Contains(got, "there is no tool") || !strings.Contains(got, "404") {
						t.Errorf("%s of a thread with %q: %q", name, names, got)
					}
				case got != "invoked":
					t.Errorf("%s of a thread with %q: %q", name, names, got)
				}
			}
		}
		if names, _ := w.offered("later"); names != "new both" {
			t.Errorf("a thread that begins when it is over has %q", names)
		}
	})
}
