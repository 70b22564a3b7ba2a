package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Older servers sync each message of a replicated stream separately: they take 1,800 messages a
// second where later ones take 58,000.
const oldestMajor, oldestMinor = 2, 15

// checkServers refuses servers that are too old, that do not sync always, or that do not say
// whether they do.
func (l *Log) checkServers(ctx context.Context) error {
	if err := recent(l.nc.ConnectedServerName(), l.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if l.opts.AssumeDurable {
		return nil
	}
	asked := l.nc
	if l.opts.SystemURL != "" {
		err := l.persist(ctx, "reach the system account", func(context.Context) error {
			opts := append([]nats.Option{nats.Timeout(2 * time.Second)}, l.opts.SystemNATS...)
			system, err := nats.Connect(l.opts.SystemURL, opts...)
			if err := refused("SystemURL", err); err != nil {
				return final{err}
			}
			if err != nil {
				return err
			}
			asked = system
			return nil
		})
		if err != nil {
			return err
		}
		defer asked.Close()
	}
	n, err := l.eachServer(ctx, asked)
	if err != nil {
		return err
	}
	if n == 0 {
		if l.opts.SystemURL != "" {
			return errors.New("natslog: SystemURL does not answer for its servers: check that its user is of the system account, or say AssumeDurable")
		}
		return fmt.Errorf("natslog: the servers %s do not say whether they sync always: give SystemURL to have it checked, or see that each has sync_interval: always and say AssumeDurable", l.where())
	}
	return nil
}

// patience is how long to wait for the answer of another server.
const patience = 300 * time.Millisecond

// eachServer checks all servers that answer and returns their number.
func (l *Log) eachServer(ctx context.Context, nc *nats.Conn) (n int, err error) {
	sub, err := nc.SubscribeSync(nc.NewRespInbox())
	if err != nil {
		return 0, fmt.Errorf("natslog: %w", err)
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING.VARZ", sub.Subject, nil); err != nil {
		return 0, fmt.Errorf("natslog: %w", err)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, patience)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			return n, context.Cause(ctx) // no more answers, or none at all
		}
		var said struct {
			Data struct {
				Name      string `json:"server_name"`
				Version   string `json:"version"`
				JetStream struct {
					Config *struct {
						SyncAlways bool `json:"sync_always"`
					} `json:"config"`
				} `json:"jetstream"`
			} `json:"data"`
		}
		if m.Header.Get("Status") != "" || json.Unmarshal(m.Data, &said) != nil || said.Data.JetStream.Config == nil {
			continue // a server without JetStream
		}
		n++
		if err := recent(said.Data.Name, said.Data.Version); err != nil {
			return n, err
		}
		if !said.Data.JetStream.Config.SyncAlways {
			return n, fmt.Errorf("natslog: the server %s does not sync what it acknowledges, so a loss of power can take everything: set sync_interval: always in its jetstream block, or say AssumeDurable", said.Data.Name)
		}
	}
}

// recent returns an error if a server is too old.
func recent(name, have string) error {
	parts := strings.SplitN(strings.TrimPrefix(have, "v"), ".", 3)
	if len(parts) >= 2 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor) {
			return nil
		}
	}
	return fmt.Errorf("natslog: the server %s has version %q, at least %d.%d is needed", name, have, oldestMajor, oldestMinor)
}
