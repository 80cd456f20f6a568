// Puts 64-byte values into etcd from a number of concurrent clients for a while, and prints one line of JSON:
// operations a second and latency percentiles. One put is in flight per client.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	endpoints := flag.String("endpoints", "", "comma-separated host:port")
	clients := flag.Int("clients", 256, "concurrent clients")
	connections := flag.Int("connections", 16, "gRPC connections that the clients share")
	duration := flag.Duration("duration", 5*time.Second, "measured time")
	warmup := flag.Duration("warmup", time.Second, "time before it is measured")
	flag.Parse()

	value := strings.Repeat("v", 64)
	pool := make([]*clientv3.Client, *connections)
	for i := range pool {
		client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(*endpoints, ","), DialTimeout: 5 * time.Second})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		defer client.Close()
		pool[i] = client
	}
	begin := time.Now().Add(*warmup)
	end := begin.Add(*duration)
	latencies := make([][]time.Duration, *clients)
	var group sync.WaitGroup
	for c := 0; c < *clients; c++ {
		group.Add(1)
		go func(c int) {
			defer group.Done()
			key := fmt.Sprintf("key-%d", c)
			for now := time.Now(); now.Before(end); {
				_, err := pool[c%len(pool)].Put(context.Background(), key, value)
				done := time.Now()
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				if now.After(begin) {
					latencies[c] = append(latencies[c], done.Sub(now))
				}
				now = done
			}
		}(c)
	}
	group.Wait()
	var all []time.Duration
	for _, l := range latencies {
		all = append(all, l...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "no operation completed")
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"per_second": float64(len(all)) / duration.Seconds(),
		"p50_ms":     float64(all[len(all)/2]) / 1e6,
		"p99_ms":     float64(all[len(all)*99/100]) / 1e6,
	})
}
