package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// historyFlags are the flags that say where a history is kept.
type historyFlags struct {
	state                     *string
	servers                   urls
	name                      *string
	credentials, nkey         *string
	authority, cert, key      *string
	system, systemCredentials *string
	assume                    *bool
	replicas                  *int
	partitions                *int
}

// add adds the flags. stateUsage describes the folder.
func (h *historyFlags) add(fs *flag.FlagSet, stateUsage string) {
	h.state = fs.String("state", "", stateUsage)
	fs.Var(&h.servers, "nats", "`address` of a NATS server, such as nats://10.0.0.1:4222 or tls://…, instead of one inside this process; may be given more than once")
	h.name = fs.String("name", "millrace", "what tells this application apart on the NATS servers")
	h.credentials = fs.String("credentials", "", "`file` with credentials for the NATS servers")
	h.nkey = fs.String("nats-nkey", "", "`file` with the seed of an NKey for the NATS servers")
	h.authority = fs.String("nats-ca", "", "`file` with the certificates of the authority that the NATS servers' are signed by, if the system does not trust it")
	h.cert = fs.String("nats-cert", "", "`file` with this process's certificate for the NATS servers; --nats-key has its key")
	h.key = fs.String("nats-key", "", "`file` with the key of --nats-cert")
	h.system = fs.String("nats-system", "", "`address` of a NATS server for a user of its system account, which says whether the servers sync always")
	h.systemCredentials = fs.String("nats-system-credentials", "", "`file` with credentials for --nats-system")
	h.assume = fs.Bool("assume-durable", false, "take it that the NATS servers sync always, whatever they say")
	h.partitions = fs.Int("partitions", 0, "into how many `parts` sessions are divided between the processes that share them; fixed when the history is made; 64 with --nats, 1 without, unless given")
	h.replicas = fs.Int("replicas", 3, "how many NATS servers keep each record")
}

// divided returns the number of partitions for the sessions of a new history.
// On one disk, one partition is fastest.
func (h *historyFlags) divided() int {
	switch {
	case *h.partitions != 0:
		return *h.partitions
	case len(h.servers) > 0:
		return 64
	}
	return 1
}

// The largest numbers that the log accepts.
const mostPartitions, mostReplicas = 4096, 5

// wrong returns an error if the flags are invalid.
func (h *historyFlags) wrong() error {
	switch {
	case *h.partitions < 0 || *h.partitions > mostPartitions:
		return fmt.Errorf("--partitions must be 1 to %d, or 0 for the default", mostPartitions)
	case *h.replicas < 0 || *h.replicas > mostReplicas:
		return fmt.Errorf("--replicas must be 1 to %d", mostReplicas)
	case *h.state == "" && len(h.servers) == 0:
		return errors.New("no --state folder and no --nats server")
	case (*h.cert == "") != (*h.key == ""):
		return errors.New("--nats-cert and --nats-key need each other")
	}
	return nil
}

// opener returns the opener of the log.
func (h *historyFlags) opener(fs *flag.FlagSet) (journal.Opener, error) {
	if err := h.wrong(); err != nil {
		return nil, misused(fs, "%v", err)
	}
	switch {
	case *h.credentials != "" && *h.nkey != "":
		return nil, errors.New("--credentials and --nats-nkey are two ways to say who this is: give one")
	case len(h.servers) == 0:
		return natslog.Embedded(filepath.Join(*h.state, "history")), nil
	}
	var secure []nats.Option // also for the system account, on the same servers
	if *h.authority != "" {
		secure = append(secure, nats.RootCAs(*h.authority))
	}
	if *h.cert != "" {
		secure = append(secure, nats.ClientCert(*h.cert, *h.key))
	}
	as := secure[:len(secure):len(secure)]
	if *h.credentials != "" {
		as = append(as, nats.UserCredentials(*h.credentials))
	}
	if *h.nkey != "" {
		seed, err := nats.NkeyOptionFromSeed(*h.nkey)
		if err != nil {
			return nil, fmt.Errorf("--nats-nkey: %w", err)
		}
		as = append(as, seed)
	}
	system := secure[:len(secure):len(secure)]
	if *h.systemCredentials != "" {
		system = append(system, nats.UserCredentials(*h.systemCredentials))
	}
	return natslog.Servers(natslog.Options{
		URLs: h.servers, NATS: as, SystemURL: *h.system, SystemNATS: system, Replicas: *h.replicas, AssumeDurable: *h.assume,
	}), nil
}
