package kafkatest

import (
	"context"
	"errors"
	"fmt"
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

// Brokers is how many brokers a [Cluster] has.
const Brokers = 3

// A Cluster is a group of brokers in their own processes, each of which is also a controller. All
// of them hold groups and transactions.
type Cluster struct {
	Addrs [Brokers]string

	tb      testing.TB
	libs    string
	dir     string
	running [Brokers]*process
}

// StartCluster starts a cluster and stops it at the end of the test. Like [Start], it may skip the test.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	libs := archives(tb)
	dir, err := os.MkdirTemp("", "millrace-kafka-")
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{tb: tb, libs: libs, dir: dir}
	tb.Cleanup(func() {
		for i := range Brokers {
			c.Kill(i)
		}
		os.RemoveAll(dir)
	})
	var voters []string
	var controllers [Brokers]string
	for i := range Brokers {
		for _, addr := range []*string{&c.Addrs[i], &controllers[i]} {
			if *addr, err = free(); err != nil {
				tb.Fatal(err)
			}
		}
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, controllers[i]))
	}
	var formatting sync.WaitGroup
	failed := make([]error, Brokers)
	for i := range Brokers {
		text := settings(c.Addrs[i], controllers[i], filepath.Join(dir, fmt.Sprint(i)))
		for from, to := range map[string]string{
			"node.id=1": fmt.Sprintf("node.id=%d", i+1), "voters=1@" + controllers[i]: "voters=" + strings.Join(voters, ","),
			"replication.factor=1": "replication.factor=3", "min.isr=1": "min.isr=2",
		} {
			text = strings.ReplaceAll(text, from, to)
		}
		if err := os.WriteFile(c.properties(i), []byte(text+"broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
		formatting.Go(func() { failed[i] = format(libs, c.properties(i)) })
	}
	formatting.Wait()
	if err := errors.Join(failed...); err != nil {
		tb.Fatal(err)
	}
	for i := range Brokers {
		c.Start(i)
	}
	if err := c.running[0].ready(); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *Cluster) properties(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%d.properties", i))
}

// Start starts a broker that is not running.
func (c *Cluster) Start(i int) {
	c.tb.Helper()
	p := &process{addr: c.Addrs[i]}
	if err := p.run(c.libs, c.properties(i), "", "256m"); err != nil {
		c.tb.Fatal(err)
	}
	c.running[i] = p
}

// Kill kills a broker with SIGKILL and waits until it has ended.
func (c *Cluster) Kill(i int) {
	if p := c.running[i]; p != nil {
		p.stdin.Close()
		<-p.ended
		c.running[i] = nil
	}
}

// InSync waits until all replicas of a topic are in sync, or ctx ends.
func (c *Cluster) InSync(ctx context.Context, cl *kgo.Client, topic string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
		answer, err := req.RequestWith(ctx, cl)
		if err == nil && len(answer.Topics) == 1 {
			all := len(answer.Topics[0].Partitions) > 0
			for _, p := range answer.Topics[0].Partitions {
				all = all && len(p.ISR) == Brokers && p.Leader >= 0
			}
			if all {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// format initializes the folder of a broker.
func format(libs, properties string) error {
	c := exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(libs, "*"), "kafka.tools.StorageTool", "format", "-t", "bWlsbHJhY2UtdGVzdC0wMQ", "-c", properties)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("kafkatest: formatting the folder of Kafka: %w: %s", err, out)
	}
	return nil
}
