package serve_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// TestSimulated has an order race with a new price. The order is quoted at either price, its repeat
// gets the same quote whatever the price is by then, and a later order never sees an older price.
func TestSimulated(t *testing.T) {
	seen := make(map[string]bool)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		at := dataflow.At[Server](s.Flow())
		prices, news := dataflow.Input[string](at, "prices")
		price := dataflow.Fold(news, func() string { return "1" }, func(p *string, next string) { *p = next })
		router, orders := serve.HTTP(at, "shop", serve.Options{})
		tick := slice.At(at)
		fresh := slice.BatchEntries(tick, orders, "each order is quoted alone, once")
		now := slice.Passive(slice.Snapshot(tick, price, "an order is quoted at the price when it is handled"))
		router.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(fresh, now),
			func(p dataflow.Pair[*serve.Request, string]) serve.Response {
				return serve.Text(http.StatusOK, p.Second)
			})))
		s.Start()

		s.Check(prices.Send(s.Context(), "2"))
		post := func(id string) string {
			r := httptest.NewRequestWithContext(s.Context(), "POST", "/", nil)
			r.Header.Set("Idempotency-Key", id)
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				s.Errorf("%s: %d %s", id, w.Code, w.Body)
			}
			return w.Body.String()
		}
		a := post("a")
		b := post("b")
		if again := post("a"); again != a {
			s.Errorf("a was quoted %s, and %s when asked again", a, again)
		}
		s.Quiesce()
		c := post("c")
		seen[a+b+c] = true
	})
	// The price arrives before the first cut, between the two, or after both.
	if got, want := slices.Sorted(maps.Keys(seen)), []string{"112", "122", "222"}; !slices.Equal(got, want) {
		t.Errorf("quotes for a, b and c: %q, want %q", got, want)
	}
	if n != 3 {
		t.Errorf("%d schedules, want 3", n)
	}
}

// TestSimulatedTime checks that time passes when nothing else can happen, and that a request that
// nothing answers learns so at once.
func TestSimulatedTime(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		router, in := serve.HTTP(dataflow.At[Server](s.Flow()), "slow", serve.Options{})
		asked := keyedsingleton.Filter(in, func(r *serve.Request) bool { return r.Path != "/nothing" })
		router.Respond(keyedsingleton.Map(keyedsingleton.After(asked, time.Hour, "nothing else happens"), echo))
		s.Start()
		for _, test := range []struct {
			path string
			want int
		}{{"/nothing", http.StatusGatewayTimeout}, {"/something", http.StatusOK}, {"/nothing", http.StatusGatewayTimeout}} {
			r := httptest.NewRequestWithContext(s.Context(), "GET", test.path, nil)
			r.Header.Set("Idempotency-Key", test.path)
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			if w.Code != test.want {
				s.Errorf("%s: %d %s, want %d", test.path, w.Code, w.Body, test.want)
			}
		}
	})
	if n != 1 {
		t.Errorf("%d schedules, want 1", n)
	}
}
