package toolserver_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/internal/envelope"
)

const purpose = "toolserver migration"

// transfer makes a message as an instance with this key would send it.
func transfer(key, purpose, step, name, toolset, endpoint, id string, payload []byte) string {
	head, text := sealed(key, purpose, map[string]string{"step": step, "transfer": name, "toolset": toolset, "session": id, "endpoint": endpoint})
	return head + string(newEnvelope(key, purpose).Seal(payload, "payload", text))
}

// step turns a captured message of a transfer into another step, as its source would send it.
func step(key, captured, step string) string {
	text, err := newEnvelope(key, purpose).Open([]byte(captured[4:4+binary.BigEndian.Uint32([]byte(captured))]), "header")
	if err != nil {
		panic(err)
	}
	var h map[string]string
	if err := json.Unmarshal(text, &h); err != nil {
		panic(err)
	}
	h["step"] = step
	head, _ := sealed(key, purpose, h)
	return head
}

func sealed(key, purpose string, header map[string]string) (head, text string) {
	data, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	b := newEnvelope(key, purpose).Seal(data, "header")
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b), string(data)
}

func newEnvelope(key, purpose string) *envelope.Envelope {
	e, err := envelope.New([]byte(key), purpose)
	if err != nil {
		panic(err)
	}
	return e
}

// push posts a message to the destination of a transfer.
func (m *move) push(body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/migrate/import", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/octet-stream")
	m.dst.server.ServeHTTP(w, r)
	return w
}

// bodies returns the transfers that were sent over the road.
func (r *road) bodies() (bodies []string) {
	for _, s := range r.sent {
		if parts := strings.SplitN(s, " ", 3); parts[0] == "POST" {
			bodies = append(bodies, parts[2])
		}
	}
	return bodies
}

// TestG12_Strangers (N85) sends messages with no key, another key, or the key of another purpose or instance.
func TestG12_Strangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		payload, err := json.Marshal(map[string]any{
			"session": []byte(`{"version":2,"place":{"Runtime":"","Session":"thread-1"},"calls":null,"done":null,"grants":null}`), "tool": []byte("x"), "has_tool": true,
		})
		if err != nil {
			t.Fatal(err)
		}
		endpoint := destination + "/invoke"
		forged := func(key, purpose, toolset, endpoint string) string {
			return transfer(key, purpose, "stage", "t1", toolset, endpoint, "thread-1", payload)
		}
		good := forged(migrationKey, purpose, "test", endpoint)
		for name, body := range map[string]string{
			"nothing":          "",
			"text":             `{"session_id":"thread-1"}`,
			"huge header":      "\xff\xff\xff\xff" + strings.Repeat("x", 100),
			"cut header":       good[:20],
			"another key":      forged(strings.Repeat("x", 32), purpose, "test", endpoint),
			"another purpose":  forged(migrationKey, "runtime migration", "test", endpoint),
			"another toolset":  forged(migrationKey, purpose, "other", endpoint),
			"another instance": forged(migrationKey, purpose, "test", "https://c.example/invoke"),
			"altered header":   good[:30] + string(good[30]^1) + good[31:],
			"altered payload":  good[:len(good)-1] + string(good[len(good)-1]^1),
			"no payload":       good[:4+binary.BigEndian.Uint32([]byte(good))],
		} {
			if w := m.push(body); w.Code != 401 || strings.Contains(w.Body.String(), "thread") {
				t.Errorf("%s: answered %d %s, want 401", name, w.Code, w.Body)
			}
		}
		if m.there.imports > 0 || m.there.get("thread-1") != "" {
			t.Error("something was imported")
		}
		if w := m.push(good); w.Code != 200 || m.there.imports != 1 {
			t.Fatalf("who has the key is answered %d; the rest of this test shows nothing", w.Code)
		}
		large := transfer(migrationKey, purpose, "stage", "t2", "test", endpoint, "thread-1", make([]byte, 64<<20))
		if w := m.push(large); w.Code != 200 { // accepted for its size and read, but not a valid payload
			t.Errorf("64 MiB: %d", w.Code)
		}
		if w := m.push(large + strings.Repeat("x", 1000)); w.Code != 413 {
			t.Errorf("more than 64 MiB: %d", w.Code)
		}
		<-time.After(6 * time.Minute)
		if w := m.push(good); w.Code != 401 {
			t.Errorf("an old transfer is answered %d", w.Code)
		}
		m.close()
		m.dst.close()
	})
}

// TestG12_Replayed (N85) replays captured messages of two sessions in any order.
func TestG12_Replayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		m.notes.set("thread-1", "one")
		m.notes.set("thread-2", "two")
		m.call("long", "c1", `{"For":60000000000}`)
		<-ran
		m.mustMigrate()
		<-ran
		if w := m.post("/migrate", `{"session_id":"thread-2","destination_url":"`+destination+`"}`); w.Code != 200 {
			t.Fatal(w.Body)
		}
		m.there.set("thread-1", "newer")
		<-time.After(2 * time.Minute)
		m.dst.nextResult()
		bodies := m.road.bodies()
		if len(bodies) != 4 {
			t.Fatalf("%d transfers, want stage and commit twice", len(bodies))
		}
		for range 2 {
			for _, b := range bodies {
				m.push(b)
			}
		}
		synctest.Wait()
		if m.there.imports != 2 || m.there.get("thread-1") != "newer" || len(ran) > 0 {
			t.Errorf("replayed: %d imports, state %q, %d functions", m.there.imports, m.there.get("thread-1"), len(ran))
		}
		header := func(b string) int { return 4 + int(binary.BigEndian.Uint32([]byte(b))) }
		one, two := bodies[0], bodies[2]
		if w := m.push(one[:header(one)] + two[header(two):]); w.Code != 401 {
			t.Errorf("the header of one session with the payload of another: %d", w.Code)
		}
		m.close()
		m.dst.close()
	})
}

// TestG12_NamesAreNoPaths moves sessions whose names look like paths, and checks the files
// (threats 26, 33).
func TestG12_NamesAreNoPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		for i, id := range []string{"../../../../escape", "/etc/escape", `..\..\escape`, "C:escape", "a/b/escape", "%2e%2e%2fescape", "~/escape", strings.Repeat("escape", 100)} {
			m.notes.set(id, "state")
			m.call("add", fmt.Sprint("c", i), `{"a":1,"b":2}`, thread(id))
			m.nextResult()
			if w := m.post("/migrate", mustJSON(t, map[string]string{"session_id": id, "destination_url": destination})); w.Code != 200 {
				t.Errorf("%.20q: %d %s", id, w.Code, w.Body)
			}
			if m.there.get(id) != "state" {
				t.Errorf("%.20q has not moved", id)
			}
			m.post("/close_thread", mustJSON(t, map[string]string{"thread_id": id}))
		}
		m.close()
		m.dst.close()
		for _, folder := range []string{m.opts.State, m.dst.opts.State} {
			files, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if n := f.Name(); n != "toolserver.db" && n != "toolserver.mark" && n != "keys.json" && n != "history" {
					t.Errorf("there is a file %q", f.Name())
				}
			}
		}
	})
}
