package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
)

// membersOf is the JSON of members.
type membersOf struct {
	Self, Unknown string
	Partitions    []struct {
		N                     int
		State, Owner          string
		Owned                 bool
		Step, Snapshot, Bytes *uint64
		LagRecords            *int `json:"lag_records"`
	}
	Parked []struct {
		Partition   int
		ID          uint64
		Key, Reason string
		Behind      int
	}
}

func membersAt(t *testing.T, h http.Handler) (m membersOf) {
	t.Helper()
	r, body := ask(t, h, "GET", "/v1/members", "Authorization", "Bearer right")
	if err := json.Unmarshal([]byte(body), &m); r.StatusCode != 200 || err != nil {
		t.Fatalf("members are answered %d, %v: %s", r.StatusCode, err, body)
	}
	return m
}

// A shop divides by the orders. It can handle 0 when mended is set.
type shop struct {
	orders *dataflow.EntryInputPort[string, int]
	shares *dataflow.EntryOutputPort[string, int]
}

func startShop(t *testing.T, mended *bool) *durable.App[shop] {
	t.Helper()
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) shop {
		in, orders := keyedsingleton.Input[string, int](dataflow.At[server](f), "orders")
		shares := keyedsingleton.Map(orders, func(n int) int {
			if n == 0 && *mended {
				return 0
			}
			return 100 / n
		})
		return shop{in, keyedsingleton.Output(shares, "shares")}
	}, durable.Options{Name: "shop", Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// post posts a form with the token.
func post(t *testing.T, h http.Handler, path string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Host = "localhost:7341"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("anybody", "right")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

// TestParked checks that the page shows records in quarantine, and that they can be retried and skipped from the
// page itself with a token.
func TestParked(t *testing.T) {
	mended := false
	app := startShop(t, &mended)
	for _, key := range []string{"</code><script>", "b", "c"} {
		if err := app.Ports.orders.Put(t.Context(), key, 0); !errors.As(err, new(*durable.QuarantinedError)) {
			t.Fatal(err)
		}
	}
	h := inspect.Handler(app, inspect.Options{Token: "right", Values: true})
	m := membersAt(t, h)
	if len(m.Parked) != 3 || m.Parked[0].Key != `"</code><script>"` || !strings.Contains(m.Parked[0].Reason, "divide by zero") || m.Unknown != "" {
		t.Fatalf("parked are %+v", m)
	}
	if p := m.Partitions[0]; !p.Owned || p.Step == nil || *p.Step == 0 || p.Bytes == nil || *p.Bytes == 0 || p.LagRecords == nil || *p.LagRecords != 0 {
		t.Errorf("the partition is %+v", p)
	}
	_, page := ask(t, h, "GET", "/members", "Authorization", "Bearer right")
	if !strings.Contains(page, `<form action="members" method="post">`) || !strings.Contains(page, "divide by zero") || strings.Contains(page, "<script>") || !strings.Contains(page, "this process") {
		t.Errorf("the page is\n%s", page)
	}
	if _, hidden := ask(t, inspect.Handler(app, inspect.Options{}), "GET", "/members"); strings.Contains(hidden, "divide by zero") || strings.Contains(hidden, "<form") {
		t.Errorf("without values and a token the page is\n%s", hidden)
	}
	form := func(i int, do string) url.Values {
		return url.Values{"partition": {"0"}, "id": {strconv.FormatUint(m.Parked[i].ID, 10)}, "do": {do}}
	}
	for name, x := range map[string]struct {
		h      http.Handler
		form   url.Values
		header []string
		want   int
	}{
		"no token":         {h, form(0, "skip"), []string{"Authorization", ""}, 401},
		"another token":    {h, form(0, "skip"), []string{"Authorization", "Bearer wrong"}, 401},
		"another site":     {h, form(0, "skip"), []string{"Origin", "http://evil.example"}, 403},
		"a link elsewhere": {h, form(0, "skip"), []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		"a sibling":        {h, form(0, "skip"), []string{"Sec-Fetch-Site", "same-site"}, 403},
		"no tokens at all": {inspect.Handler(app, inspect.Options{}), form(0, "skip"), nil, 405},
		"no such thing":    {h, form(0, "delete"), nil, 400},
		"no number":        {h, url.Values{"partition": {"x"}, "id": {"1"}, "do": {"skip"}}, nil, 400},
		"no such letter":   {h, url.Values{"partition": {"0"}, "id": {"99"}, "do": {"skip"}}, nil, 404},
		"no partition":     {h, url.Values{"partition": {"9"}, "id": {"1"}, "do": {"retry"}}, nil, 404},
		"too long":         {h, url.Values{"id": {strings.Repeat("1", 1<<16)}}, nil, 400},
		"not mended":       {h, form(0, "retry"), nil, 409},
	} {
		if r, body := post(t, x.h, "/members", x.form, x.header...); r.StatusCode != x.want {
			t.Errorf("%s: answered %d, want %d: %s", name, r.StatusCode, x.want, body)
		}
	}
	m = membersAt(t, h)
	if len(m.Parked) != 3 {
		t.Fatalf("parked are %+v", m.Parked)
	}
	if r, body := post(t, h, "/members", form(1, "skip"), "Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:7341"); r.StatusCode != 303 || r.Header.Get("Location") != "members" {
		t.Errorf("skipped: %d %s", r.StatusCode, body)
	}
	mended = true
	if r, body := post(t, h, "/members", form(2, "retry")); r.StatusCode != 303 {
		t.Errorf("retried: %d %s", r.StatusCode, body)
	}
	if n, err := app.Ports.shares.Await(t.Context(), "c"); n != 0 || err != nil {
		t.Errorf("what was retried gave %d, %v", n, err)
	}
	if left := membersAt(t, h).Parked; len(left) != 1 {
		t.Errorf("parked are %+v", left)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An away is a flow whose partition another member owns, and whose owner does not answer.
type away struct{ *durable.App[till] }

func (a away) Status() []durable.PartitionStatus {
	all := a.App.Status()
	all[0].Owned, all[0].Owner, all[0].State = false, "m2", durable.Elsewhere
	all[0].Lag, all[0].Waiting = durable.Lag{}, 0
	return all
}

func (a away) Quarantine(context.Context) ([]durable.Letter, error) {
	return nil, errors.New("the owner does not answer <b>")
}

// TestElsewhere checks that the page names the owner of a partition that another member owns, and does not show
// unknown figures as zero.
func TestElsewhere(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{})
	var model tillModel
	model.pay(t, app, "a", "b")
	h := inspect.Handler(away{app}, inspect.Options{Values: true, Token: "right"})
	m := membersAt(t, h)
	p := m.Partitions[0]
	if p.Owned || p.Owner != "m2" || p.LagRecords != nil || m.Self != "" || !strings.Contains(m.Unknown, "does not answer") || p.Step == nil || *p.Step < model.steps[1] {
		t.Errorf("members are %+v", m)
	}
	_, page := ask(t, h, "GET", "/members", "Authorization", "Bearer right")
	for _, want := range []string{"runs elsewhere: m2", "its owner knows", "Not all is known: the owner does not answer &lt;b&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "Nothing.") {
		t.Error("it is said that nothing is parked")
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, page := ask(t, h, "GET", "/members", "Authorization", "Bearer right"); !strings.Contains(page, "not known") {
		t.Errorf("when the log is closed the page is\n%s", page)
	}
}
