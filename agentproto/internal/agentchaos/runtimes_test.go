package agentchaos

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// runRuntime is the main function of a runtime's process.
func runRuntime(c config) error {
	book := new(notebook)
	sealer, err := host.SealerOf([32]byte{7})
	if err != nil {
		return err
	}
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	history, partitions := natslog.Embedded(c.State), 1
	if len(c.Servers) > 0 {
		partitions = 8
		history = natslog.Servers(natslog.Options{URLs: c.Servers, AssumeDurable: true})
	}
	rt, err := host.Start(context.Background(), host.Options{
		Toolsets: c.Toolsets, Listener: l, Sealer: sealer, Logger: logger,
		Surface: &decided{book: book}, Model: conversation.ModelFunc(obey),
		State: &durable.Options{
			Name: "agentchaos", Log: history, Partitions: partitions,
			SnapshotAge: 5 * time.Second, SnapshotBytes: 4 << 20, Logger: logger,
		},
	})
	if err != nil {
		return err
	}
	go func() {
		for r := range rt.Results(context.Background()) {
			book.write(note{What: "told", Thread: r.Key.GroupID, Call: r.Key.ID, Cause: r.Cause.String(), Text: r.Result.String()})
		}
	}()
	api, err := listen(c.API)
	if err != nil {
		return err
	}
	book.write(note{What: "ready"})
	return http.Serve(api, door{rt}.handler())
}

// decided is a user who always makes the same choice and grants every authorization.
type decided struct {
	book     *notebook
	answerer host.Answerer
}

func (d *decided) Bind(a host.Answerer) { d.answerer = a }

func (d *decided) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	d.book.write(note{What: "oauth", Thread: key.GroupID, Call: key.ID, AuthURL: o.AuthURL})
}

func (d *decided) Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	go func() {
		for d.answerer.Answer(ctx, key, c.ResponseURL, chosen) != nil && pass(ctx, 100*time.Millisecond) {
		}
	}()
}

func (*decided) Withdraw(agentproto.CallKey, string)             {}
func (*decided) Progress(agentproto.CallKey, agentproto.State)   {}
func (*decided) View(agentproto.CallKey, *agentproto.ViewUpdate) {}

// obey is a model that makes the calls that the user asks for, once. When it has their
// results it says so.
func obey(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Kind != conversation.User {
		return &conversation.Reply{Text: "noted"}, nil
	}
	var calls []conversation.Call
	if err := json.Unmarshal([]byte(last.Text), &calls); err != nil {
		return nil, conversation.Permanent(err)
	}
	made := slices.ContainsFunc(r.Messages, func(m conversation.Message) bool {
		return slices.ContainsFunc(m.Calls, func(c conversation.Call) bool { return c.ID == calls[0].ID })
	})
	if made {
		return &conversation.Reply{Text: "noted"}, nil
	}
	return &conversation.Reply{Calls: calls}, nil
}

// A door is the API of a runtime's process. A request that it answers 202 is stored.
type door struct{ rt *host.Runtime }

// An order is the test's request for a call.
type order struct {
	Thread, ID, Operation string
	User                  string
	Arguments             json.RawMessage
	Lifetime              time.Duration
}

// An outcome is the result of a call and its cause.
type outcome struct{ Cause, Text string }

func (d door) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /calls", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, err := d.rt.Call(r.Context(), host.Request{
			GroupID: o.Thread, ID: o.ID, Operation: o.Operation, UserID: o.User, Arguments: []byte(o.Arguments), Lifetime: o.Lifetime,
		})
		if errors.Is(err, host.ErrDuplicateCall) {
			err = nil // it was made before, and is stored
		}
		d.answer(w, http.StatusAccepted, nil, err)
	})
	mux.HandleFunc("GET /calls/{thread}/{id}", func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), 5*time.Second)
		defer stop()
		res, err := d.rt.Await(ctx, keyOf(r))
		if err != nil {
			d.answer(w, 0, nil, err)
			return
		}
		d.answer(w, http.StatusOK, outcome{res.Cause.String(), res.Result.String()}, nil)
	})
	mux.HandleFunc("DELETE /calls/{thread}/{id}", func(w http.ResponseWriter, r *http.Request) {
		d.answer(w, http.StatusAccepted, nil, d.rt.Cancel(r.Context(), keyOf(r)))
	})
	mux.HandleFunc("PUT /threads/{thread}", func(w http.ResponseWriter, r *http.Request) {
		_, err := d.rt.OpenSession(r.Context(), host.SessionRequest{ID: r.PathValue("thread")})
		d.answer(w, http.StatusAccepted, nil, err)
	})
	mux.HandleFunc("POST /threads/{thread}", func(w http.ResponseWriter, r *http.Request) {
		var calls []conversation.Call
		err := json.NewDecoder(r.Body).Decode(&calls)
		if err == nil {
			var text []byte
			if text, err = json.Marshal(calls); err == nil {
				err = d.rt.Thread(r.PathValue("thread")).Say(r.Context(), string(text))
			}
		}
		d.answer(w, http.StatusAccepted, nil, err)
	})
	mux.HandleFunc("GET /threads/{thread}", func(w http.ResponseWriter, r *http.Request) {
		history, err := d.rt.Thread(r.PathValue("thread")).History(r.Context())
		d.answer(w, http.StatusOK, history, err)
	})
	return mux
}

func keyOf(r *http.Request) agentproto.CallKey {
	return agentproto.CallKey{GroupID: r.PathValue("thread"), ID: r.PathValue("id")}
}

func (d door) answer(w http.ResponseWriter, status int, body any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(status)
	if body != nil {
		json.NewEncoder(w).Encode(body)
	}
}
