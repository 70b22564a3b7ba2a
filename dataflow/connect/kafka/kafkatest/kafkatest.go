// Package kafkatest runs Apache Kafka for tests: [Start] runs one broker in its own process, [StartCluster] several. Their data
// are in a folder that is deleted at the end.
//
// The broker has the version that pom.xml names, and runs on the installed Java. .ci/kafka installs it.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Version is the version of Kafka that pom.xml names.
const Version = "4.1.0"

// A process is a running broker.
type process struct {
	addr string

	shell *exec.Cmd
	stdin io.Closer  // the shell kills the broker when this is closed, which also happens when this process ends
	ended chan error // receives the result of the shell
	dir   string
}

// A holder holds the shared broker of the test process.
type holder struct {
	mu    sync.Mutex
	kafka *process // nil if none runs
	err   error
}

var shared holder

// Start returns the address of the broker of this process, which the first call starts. If Java or Kafka is missing, it skips the
// test, unless MILLRACE_REAL is "require". A program whose tests call Start must call [Stop] in TestMain.
func Start(tb testing.TB) string {
	tb.Helper()
	addr, err := shared.start(archives(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return addr
}

// archives returns the folder of Kafka's archives, or skips the test.
func archives(tb testing.TB) string {
	tb.Helper()
	libs, err := find()
	if err != nil {
		if os.Getenv("MILLRACE_REAL") == "require" {
			tb.Fatal("NO KAFKA: ", err)
		}
		tb.Skip("NO KAFKA, NOT TESTED AGAINST A REAL BROKER: ", err)
	}
	return libs
}

// Stop kills the broker, if one was started, and deletes its data.
func Stop() { shared.stop() }

func (h *holder) start(libs string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kafka == nil && h.err == nil {
		h.kafka, h.err = start(libs)
	}
	if h.err != nil {
		return "", h.err
	}
	return h.kafka.addr, nil
}

func (h *holder) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kafka != nil {
		h.kafka.stop()
	}
	h.kafka = nil
}

// find returns the folder of Kafka's archives: that of MILLRACE_KAFKA, or where .ci/kafka puts them.
func find() (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", err
	}
	libs := os.Getenv("MILLRACE_KAFKA")
	if libs == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		libs = filepath.Join(cache, "millrace", "kafka-"+Version)
	}
	if found, _ := filepath.Glob(filepath.Join(libs, "kafka-server-*.jar")); len(found) == 0 {
		return "", fmt.Errorf("no archives of Kafka in %s: .ci/kafka fetches them", libs)
	}
	return libs, nil
}

// script runs a broker with the given memory until its standard input ends, which happens when the process at the other end is
// killed. Then it deletes its folder, if one is given. A background process of a shell has no standard input, so the script
// passes it under another number.
const script = `exec 3<&0
java -Xmx$4 -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$1/*" kafka.Kafka "$2" 3<&- &
broker=$!
(read -r line <&3; kill -9 $broker) &
wait $broker
[ -z "$3" ] || rm -rf "$3"
`

func start(libs string) (_ *process, err error) {
	dir, err := os.MkdirTemp("", "millrace-kafka-")
	if err != nil {
		return nil, err
	}
	k := &process{dir: dir}
	defer func() {
		if err != nil {
			k.stop()
		}
	}()
	broker, err := free()
	if err != nil {
		return nil, err
	}
	controller, err := free()
	if err != nil {
		return nil, err
	}
	k.addr = broker
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte(settings(broker, controller, dir)), 0o600); err != nil {
		return nil, err
	}
	if err := format(libs, properties); err != nil {
		return nil, err
	}
	if err := k.run(libs, properties, dir, "512m"); err != nil {
		return nil, err
	}
	if err := k.ready(); err != nil {
		return nil, fmt.Errorf("kafkatest: Kafka does not answer: %w", err)
	}
	return k, nil
}

// run starts the broker with the given memory. The error with which it ends contains its output.
func (k *process) run(libs, properties, remove, memory string) (err error) {
	var printed strings.Builder
	k.shell = exec.Command("sh", "-c", script, "sh", libs, properties, remove, memory)
	k.shell.Stdout, k.shell.Stderr = &printed, &printed
	if k.stdin, err = k.shell.StdinPipe(); err != nil {
		return err
	}
	if err := k.shell.Start(); err != nil {
		return err
	}
	k.ended = make(chan error, 1)
	go func() {
		if err := k.shell.Wait(); err != nil {
			k.ended <- fmt.Errorf("%w: %s", err, printed.String())
			return
		}
		k.ended <- nil
	}()
	return nil
}

// ready waits until the broker answers. The archives contain no logging library, so there is no log line to wait for.
func (k *process) ready() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for ctx.Err() == nil {
			if answer, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl); err == nil && len(answer.Brokers) > 0 && coordinates(ctx, cl) {
				return
			}
		}
	}()
	defer func() { cancel(); <-answered }()
	select {
	case <-answered:
		return nil
	case err := <-k.ended:
		k.ended <- err
		return fmt.Errorf("it has ended: %w", err)
	case <-time.After(5 * time.Minute):
		return errors.New("not within 5 minutes")
	}
}

// coordinates reports whether the broker has created the topics of groups and transactions, which it does at the first request.
func coordinates(ctx context.Context, cl *kgo.Client) bool {
	for kind := range int8(2) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, "any", []string{"any"}
		answer, err := req.RequestWith(ctx, cl)
		if err != nil || answer.ErrorCode != 0 {
			return false
		}
		for _, c := range answer.Coordinators {
			if c.ErrorCode != 0 {
				return false
			}
		}
	}
	return true
}

func (k *process) stop() {
	if k.ended != nil {
		k.stdin.Close()
		<-k.ended
	}
	os.RemoveAll(k.dir)
}

// free returns a loopback address on which nobody listens.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// settings returns the configuration of a broker that is its own controller. Groups and transactions have one partition each,
// since the usual 50 are created one by one. Compaction, retention and expired transactions are checked every second.
func settings(broker, controller, dir string) string {
	return strings.NewReplacer("BROKER", broker, "VOTER", controller, "DIR", filepath.Join(dir, "data")).Replace(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@VOTER
listeners=PLAINTEXT://BROKER,CONTROLLER://VOTER
advertised.listeners=PLAINTEXT://BROKER
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=DIR
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=16777216
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
`)
}
