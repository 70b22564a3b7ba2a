package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A basket is the state that a tool keeps for each session.
type basket struct {
	mu    sync.Mutex
	items map[string][]string
}

func (b *basket) put(session, item string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items[session] = append(b.items[session], item)
	return len(b.items[session])
}

func (b *basket) Export(_ context.Context, session string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items[session] == nil {
		return nil, nil // nothing to move
	}
	return json.Marshal(b.items[session])
}

func (b *basket) Import(_ context.Context, session string, state []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var items []string
	err := json.Unmarshal(state, &items)
	b.items[session] = items
	return err
}

// In this example two instances of a server share a key. A runtime asks the first one to move a
// session to the second.
func ExampleMigrator() {
	instance := func(destinations ...string) (*basket, *httptest.Server, func()) {
		b := &basket{items: make(map[string][]string)}
		web := httptest.NewUnstartedServer(nil)
		server := toolserver.New(toolserver.Options{
			Name:                  "shop",
			PublicURL:             "http://" + web.Listener.Addr().String(),
			Migrator:              b,
			MigrationKey:          toolserver.NewSecret("32 random bytes from the configuration"),
			MigrationDestinations: destinations,
		})
		toolserver.Add(server, "put", "Puts something into the basket.", func(ctx context.Context, in struct{ Item string }) (int, error) {
			return b.put(toolserver.Invocation(ctx).GroupID, in.Item), nil
		})
		web.Config.Handler = server
		web.Start()
		return b, web, func() { server.Close(context.Background()); web.Close() }
	}
	there, second, closeSecond := instance()
	defer closeSecond()
	here, first, closeFirst := instance(second.URL)
	defer closeFirst()

	here.put("thread-1", "bread")
	resp, err := http.Post(first.URL+"/migrate", "application/json",
		strings.NewReader(fmt.Sprintf(`{"session_id":"thread-1","destination_url":%q}`, second.URL)))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, there.items["thread-1"])
	// Output:
	// 200 [bread]
}
