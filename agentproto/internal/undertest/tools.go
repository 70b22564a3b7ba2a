package undertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// work is how long the slow operation takes.
const work = 2 * time.Second

// A stock is the shared data of the operations. It is in memory: no case that uses it restarts the
// server in between.
type stock struct {
	config Config
	mu     sync.Mutex
	counts map[string]int
	topics map[string]*topic
}

type named struct {
	Name string `json:"name"`
}

type noted struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// newServer returns the server with an operation for every role.
func newServer(config Config, change Change) (*toolserver.Server, error) {
	opts, err := config.options()
	if err != nil {
		return nil, err
	}
	kept := &notes{sessions: make(map[string]map[string]string)}
	opts.Migrator = kept
	if change.Options != nil {
		change.Options(&opts)
	}
	s, err := toolserver.Open(opts)
	if err != nil {
		return nil, err
	}
	k := &stock{config: config, counts: make(map[string]int), topics: make(map[string]*topic)}
	switch config.Broken {
	case "no_description":
		toolserver.Add(s, "undescribed", "", k.echo)
	case "bad_schema":
		toolserver.Add(s, "shapeless", "Takes something that no schema describes.",
			func(context.Context, struct{ C chan int }) (string, error) { return "", nil })
	}
	toolserver.Add(s, "echo", "Returns its text.", k.echo)
	toolserver.Add(s, "slow", "Works for some seconds.", k.slow)
	toolserver.Add(s, "count", "Counts one under a name.", func(_ context.Context, in named) (int, error) { return k.add(in.Name, 1), nil })
	toolserver.Add(s, "peek", "Tells a count.", func(_ context.Context, in named) (int, error) { return k.add(in.Name, 0), nil })
	toolserver.Add(s, "crash", "Panics.", func(context.Context, struct{}) (string, error) { panic("the shaft is broken") })
	toolserver.Add(s, "choose", "Asks the user for a colour.", k.choose)
	toolserver.Add(s, "grant", "Needs the user's leave.", k.grant)
	toolserver.Add(s, "messy", "Fails when it is ended.", k.messy)
	personal := toolserver.ToolOptions{RequireOAuth: "idp"}
	toolserver.AddWithOptions(s, "whoami", "Tells who the user is.", personal, k.whoami)
	toolserver.AddWithOptions(s, "leak", "Gives its token away.", personal, k.leak)
	toolserver.AddSubscription(s, "watch", "Subscribes to a topic.", toolserver.ToolOptions{}, k.open, k.produce)
	toolserver.Add(s, "publish", "Publishes to a topic.", k.publish)
	toolserver.Add(s, "remember", "Keeps a note in the session.", kept.remember)
	toolserver.Add(s, "recall", "Tells a note of the session.", kept.recall)
	return s, nil
}

func (k *stock) echo(_ context.Context, in struct {
	Text string `json:"text"`
}) (string, error) {
	return in.Text, nil
}

// slow counts its cancellation, and nothing else: being killed does not count.
func (k *stock) slow(ctx context.Context, in named) (string, error) {
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
		return "done", nil
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), toolserver.ErrCancelled) {
			k.add(in.Name, 1)
		}
		return "", context.Cause(ctx)
	}
}

func (k *stock) add(name string, n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts[name] += n
	return k.counts[name]
}

func (k *stock) choose(ctx context.Context, _ struct{}) (string, error) {
	colours := []string{"red", "green", "blue"}
	i, err := toolserver.Choose(ctx, "Which colour?", colours, 0)
	if err != nil {
		return "", err
	}
	return colours[i], nil
}

// grant asks the user unless the session has a grant.
func (k *stock) grant(ctx context.Context, _ struct{}) (string, error) {
	granted, err := toolserver.Granted(ctx, "leave")
	if err != nil || granted {
		return "granted before", err
	}
	i, err := toolserver.Choose(ctx, "May it?", []string{"no", "once", "for the session"}, 0)
	if err != nil || i == 0 {
		return "not granted", err
	}
	if i == 2 {
		err = toolserver.Grant(ctx, "leave")
	}
	return "granted", err
}

func (k *stock) messy(ctx context.Context, _ named) (string, error) {
	<-ctx.Done()
	panic("the cleanup fails")
}

func (k *stock) whoami(ctx context.Context, _ struct{}) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.config.Provider.UserInfo, nil)
	if err != nil {
		return "", err
	}
	resp, err := toolserver.Client(ctx).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the provider answered %d", resp.StatusCode)
	}
	var who struct {
		Name string `json:"name"`
		Sub  string `json:"sub"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&who); err != nil {
		return "", errors.New("the provider's answer cannot be read")
	}
	return who.Name + " (" + who.Sub + ")", nil
}

// leak gives its token away, as a tool should not.
func (k *stock) leak(ctx context.Context, in struct {
	How string `json:"how"`
}) (string, error) {
	secret, err := toolserver.Token(ctx)
	if err != nil {
		return "", err
	}
	token := secret.Reveal()
	switch in.How {
	case "base64":
		return base64.StdEncoding.EncodeToString([]byte("token=" + token)), nil
	case "url":
		return "https://example.com/?t=" + url.QueryEscape(token), nil
	case "error":
		return "", errors.New("GET /?access_token=" + token)
	case "panic":
		panic(token)
	case "question":
		_, err := toolserver.Choose(ctx, "Is it "+token+"?", []string{"yes", token}, 0)
		return "asked", err
	}
	return token, nil
}
