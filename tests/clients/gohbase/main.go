// The scenario of ../README.md with gohbase, as far as that client goes.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
)

const rowCount = 10000

var (
	table          string
	client         gohbase.Client
	admin          gohbase.AdminClient
	expected       = map[string]string{}
	mine           = map[string]bool{}
	passed, failed int
	exception      = regexp.MustCompile(`[A-Za-z0-9_.$]+Exception`)
)

type (
	values  = map[string]map[string][]byte
	options = []func(hrpc.Call) error
)

func within() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), time.Minute) //nolint:govet // ends with the program
	return ctx
}

// The class of the server's exception, without its package.
func class(err error) string {
	if errors.Is(err, gohbase.TableNotFound) {
		return "TableNotFoundException"
	}
	name := exception.FindString(err.Error())
	return name[strings.LastIndexAny(name, ".$")+1:]
}

func check(name string, what func() (string, error)) {
	actual, err := what()
	note := ""
	if err != nil {
		actual, note = class(err), " ("+strings.SplitN(err.Error(), "\n", 2)[0]+")"
	}
	if !mine[name] {
		actual = "not a check of this client, or done twice"
	}
	delete(mine, name)
	if actual == expected[name] {
		passed++
		fmt.Println("ok", name)
	} else {
		failed++
		fmt.Printf("FAIL %s expected %s got %s%s\n", name, expected[name], actual, note)
	}
}

func readExpected(file string) {
	text, err := os.ReadFile(file)
	must(err)
	for _, line := range strings.Split(string(text), "\n") {
		part := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") || len(part) < 3 {
			continue
		}
		expected[part[0]] = part[2]
		if slices.Contains(strings.Split(part[1], ","), "gohbase") {
			mine[part[0]] = true
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Println("FAIL scenario", err)
		fmt.Printf("%d passed, %d failed\n", passed, failed+1)
		os.Exit(1)
	}
}

func key(i int) string { return fmt.Sprintf("r%05d", i) }

func one(family, qualifier, value string) values {
	return values{family: {qualifier: []byte(value)}}
}

func get(row string, with ...func(hrpc.Call) error) (*hrpc.Result, error) {
	request, err := hrpc.NewGetStr(within(), table, row, with...)
	if err != nil {
		return nil, err
	}
	return client.Get(request)
}

func put(row string, cells values, with ...func(hrpc.Call) error) error {
	request, err := hrpc.NewPutStr(within(), table, row, cells, with...)
	if err != nil {
		return err
	}
	_, err = client.Put(request)
	return err
}

func remove(row string, cells values, with ...func(hrpc.Call) error) error {
	request, err := hrpc.NewDelStr(within(), table, row, cells, with...)
	if err != nil {
		return err
	}
	_, err = client.Delete(request)
	return err
}

func shown(result *hrpc.Result, each func(*hrpc.Cell) string) string {
	if result == nil || len(result.Cells) == 0 {
		return "empty"
	}
	var all []string
	for _, cell := range result.Cells {
		all = append(all, each(cell))
	}
	return strings.Join(all, " ")
}

func cells(result *hrpc.Result) string {
	return shown(result, func(c *hrpc.Cell) string { return fmt.Sprintf("%s:%s=%s", c.Family, c.Qualifier, c.Value) })
}

func stamps(result *hrpc.Result) string {
	return shown(result, func(c *hrpc.Cell) string { return fmt.Sprintf("%d=%s", *c.Timestamp, c.Value) })
}

func withRow(result *hrpc.Result) string {
	if result == nil || len(result.Cells) == 0 {
		return "empty"
	}
	return string(result.Cells[0].Row) + " " + cells(result)
}

// What of a row, or its error.
func of(show func(*hrpc.Result) string, row string, with ...func(hrpc.Call) error) (string, error) {
	result, err := get(row, with...)
	if err != nil {
		return "", err
	}
	return show(result), nil
}

func scan(from, to string, each func(*hrpc.Result), with ...func(hrpc.Call) error) error {
	request, err := hrpc.NewScanRangeStr(within(), table, from, to, with...)
	if err != nil {
		return err
	}
	scanner := client.Scan(request)
	defer scanner.Close()
	for {
		row, err := scanner.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		each(row)
	}
}

func rows(reversed bool, from, to string, with ...func(hrpc.Call) error) (string, error) {
	var keys []string
	err := scan(from, to, func(row *hrpc.Result) { keys = append(keys, string(row.Cells[0].Row)) }, with...)
	if err != nil || len(keys) == 0 {
		return "0 rows", err
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	if reversed {
		slices.Reverse(sorted)
	}
	order := "in order"
	if !slices.Equal(keys, sorted) {
		order = "out of order"
	}
	return fmt.Sprintf("%d rows, %s to %s, %s", len(keys), keys[0], keys[len(keys)-1], order), nil
}

// Does it for all numbers, some at once, as the client gathers what comes at once into one call.
func atOnce(count int, what func(int) error) error {
	const workers = 100
	var group sync.WaitGroup
	failures := make([]error, workers)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < count && failures[worker] == nil; i += workers {
				failures[worker] = what(i)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func createTable() error {
	return admin.CreateTable(hrpc.NewCreateTable(within(), []byte(table),
		map[string]map[string]string{"f": {"VERSIONS": "3"}, "g": {"VERSIONS": "1"}},
		hrpc.SplitKeys([][]byte{[]byte("r02500"), []byte("r05000"), []byte("r07500")})))
}

func dropTable() {
	// Fails where there is none, or where it is disabled.
	_ = admin.DisableTable(hrpc.NewDisableTable(within(), []byte(table)))
	_ = admin.DeleteTable(hrpc.NewDeleteTable(within(), []byte(table)))
}

func tableNames() ([]string, error) {
	request, err := hrpc.NewListTableNames(within())
	if err != nil {
		return nil, err
	}
	listed, err := admin.ListTableNames(request)
	var names []string
	for _, name := range listed {
		names = append(names, string(name.Qualifier))
	}
	return names, err
}

// Start keys of the table's regions, as hbase:meta has them.
func starts() (string, error) {
	request, err := hrpc.NewScanRangeStr(within(), "hbase:meta", table, table+".", hrpc.Families(map[string][]string{"info": {"regioninfo"}}))
	if err != nil {
		return "", err
	}
	scanner := client.Scan(request)
	defer scanner.Close()
	var keys []string
	for {
		row, err := scanner.Next()
		if err == io.EOF {
			return strings.Join(keys, ","), nil
		}
		if err != nil {
			return "", err
		}
		keys = append(keys, strings.Split(string(row.Cells[0].Row), ",")[1])
	}
}

func ddl() {
	check("connect", func() (string, error) {
		status, err := admin.ClusterStatus()
		return fmt.Sprint(err == nil && status.ClusterId.GetClusterId() != ""), err
	})
	check("cluster.servers", func() (string, error) {
		status, err := admin.ClusterStatus()
		return fmt.Sprint(len(status.GetLiveServers()) >= 1), err
	})
	check("table.create", func() (string, error) {
		if err := createTable(); err != nil {
			return "", err
		}
		return starts()
	})
	check("table.create.again", func() (string, error) { return "created", createTable() })
	check("table.list", func() (string, error) {
		names, err := tableNames()
		return fmt.Sprint(slices.Contains(names, table)), err
	})
}

func writeAndRead() {
	check("write.rows", func() (string, error) {
		return fmt.Sprint(rowCount), atOnce(rowCount, func(i int) error {
			return put(key(i), values{"f": {"v": []byte("value-" + key(i)[1:])}, "g": {"n": []byte(fmt.Sprint(i % 10))}})
		})
	})
	check("read.rows", func() (string, error) {
		right := make([]bool, rowCount)
		err := atOnce(rowCount, func(i int) error {
			got, err := of(withRow, key(i))
			right[i] = got == fmt.Sprintf("%s f:v=value-%s g:n=%d", key(i), key(i)[1:], i%10)
			return err
		})
		count := 0
		for _, is := range right {
			if is {
				count++
			}
		}
		return fmt.Sprintf("%d right, %d wrong", count, rowCount-count), err
	})
	check("get.row", func() (string, error) { return of(withRow, "r01234") })
	check("get.column", func() (string, error) {
		return of(withRow, "r01234", hrpc.Families(map[string][]string{"f": {"v"}}))
	})
	check("get.family", func() (string, error) {
		return of(withRow, "r01234", hrpc.Families(map[string][]string{"g": nil}))
	})
	check("get.absent", func() (string, error) { return of(withRow, "absent") })
	check("get.exists", func() (string, error) {
		there, err := exists("r01234")
		if err != nil {
			return "", err
		}
		absent, err := exists("absent")
		return there + " " + absent, err
	})
	check("get.list", func() (string, error) {
		var calls []hrpc.Call
		for _, row := range []string{"r00001", "absent", "r09999"} {
			request, err := hrpc.NewGetStr(within(), table, row)
			if err != nil {
				return "", err
			}
			calls = append(calls, request)
		}
		var all []string
		results, _ := client.SendBatch(within(), calls)
		for _, result := range results {
			if result.Error != nil {
				return "", result.Error
			}
			all = append(all, withRow(hrpc.ToLocalResult(result.Msg.(*pb.GetResponse).Result)))
		}
		return strings.Join(all, "; "), nil
	})
}

func exists(row string) (string, error) {
	request, err := hrpc.NewGetStr(within(), table, row)
	if err != nil {
		return "", err
	}
	request.ExistsOnly()
	result, err := client.Get(request)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(*result.Exists), nil
}

func scans() {
	all := func(name, from, to string, with ...func(hrpc.Call) error) {
		check(name, func() (string, error) { return rows(false, from, to, with...) })
	}
	all("scan.all", "", "")
	all("scan.range", "r02400", "r02600")
	all("scan.region", "r00100", "r00190")
	all("scan.caching", "r02480", "r02520", hrpc.NumberOfRows(7))
	check("scan.reversed", func() (string, error) { return rows(true, "r05010", "r04990", hrpc.Reversed()) })
	check("scan.partial", func() (string, error) {
		seen, count := map[string]bool{}, 0
		err := scan("r02400", "r02600", func(row *hrpc.Result) {
			seen[string(row.Cells[0].Row)] = true
			count += len(row.Cells)
		}, hrpc.AllowPartialResults(), hrpc.MaxResultSize(1))
		return fmt.Sprintf("%d rows, %d cells", len(seen), count), err
	})
	all("scan.small.result", "r02400", "r02600", hrpc.MaxResultSize(1000))
	check("scan.family", func() (string, error) {
		var digits []string
		err := scan("r00000", "r00005", func(row *hrpc.Result) { digits = append(digits, string(row.Cells[0].Value)) },
			hrpc.Families(map[string][]string{"g": nil}))
		return strings.Join(digits, " "), err
	})
	prefix := filter.NewPrefixFilter([]byte("r0123"))
	seven := filter.NewSingleColumnValueFilter([]byte("g"), []byte("n"), filter.Equal,
		filter.NewBinaryComparator(filter.NewByteArrayComparable([]byte("7"))), false, true)
	all("scan.filter.prefix", "", "", hrpc.Filters(prefix))
	all("scan.filter.value", "", "", hrpc.Filters(seven))
	all("scan.filter.list", "", "", hrpc.Filters(filter.NewList(filter.MustPassAll, filter.NewPrefixFilter([]byte("r000")), seven)))
	all("scan.none", "s", "t")
}

func versions() {
	for i, value := range []string{"a", "b", "c"} {
		must(put("x-versions", one("f", "v", value), hrpc.TimestampUint64(uint64(i+1)*1000)))
	}
	all := hrpc.MaxVersions(10)
	check("versions.two", func() (string, error) { return of(stamps, "x-versions", hrpc.MaxVersions(2)) })
	check("versions.all", func() (string, error) { return of(stamps, "x-versions", all) })
	check("versions.time.range", func() (string, error) { return of(stamps, "x-versions", all, hrpc.TimeRangeUint64(1000, 3000)) })
	must(put("x-versions", one("f", "v", "d"), hrpc.TimestampUint64(4000)))
	check("versions.fourth", func() (string, error) { return of(stamps, "x-versions", all) })
	must(put("x-one", one("g", "v", "x"), hrpc.TimestampUint64(1000)))
	must(put("x-one", one("g", "v", "y"), hrpc.TimestampUint64(2000)))
	check("versions.one", func() (string, error) { return of(stamps, "x-one", all) })
}

func increment(row string, qualifier string, by int64) (string, error) {
	request, err := hrpc.NewIncStrSingle(within(), table, row, "f", qualifier, by)
	if err != nil {
		return "", err
	}
	now, err := client.Increment(request)
	return fmt.Sprint(now), err
}

func incrementsAndAppends() {
	check("increment.concurrent", func() (string, error) {
		err := atOnce(100, func(int) error { _, err := increment("x-counter", "c", 1); return err })
		if err != nil {
			return "", err
		}
		return of(func(r *hrpc.Result) string { return fmt.Sprint(binary.BigEndian.Uint64(r.Cells[0].Value)) }, "x-counter")
	})
	check("increment.result", func() (string, error) { return increment("x-counter", "c", 7) })
	_, err := increment("x-counter", "c", 1)
	must(err)
	check("increment.negative", func() (string, error) { return increment("x-counter", "c", -10) })
	must(put("x-append", one("f", "v", "ab")))
	check("increment.not.a.number", func() (string, error) { return increment("x-append", "v", 1) })
	check("append.result", func() (string, error) {
		request, err := hrpc.NewAppStr(within(), table, "x-append", one("f", "v", "cd"))
		if err != nil {
			return "", err
		}
		result, err := client.Append(request)
		if err != nil {
			return "", err
		}
		return string(result.Cells[0].Value), nil
	})
	check("append.read", func() (string, error) {
		return of(func(r *hrpc.Result) string { return string(r.Cells[0].Value) }, "x-append")
	})
}

func checkAndPut(qualifier, wanted, value string, op pb.CompareType) (string, error) {
	request, err := hrpc.NewPutStr(within(), table, "x-check", one("f", qualifier, value))
	if err != nil {
		return "", err
	}
	var expectedValue []byte
	if wanted != "" {
		expectedValue = []byte(wanted)
	}
	done, err := client.CheckAndPutWithCompareType(request, "f", "v", expectedValue, op)
	return fmt.Sprint(done), err
}

func checkAndDelete(wanted string) (string, error) {
	request, err := hrpc.NewDelStr(within(), table, "x-check", nil)
	if err != nil {
		return "", err
	}
	condition, err := hrpc.NewCheckAndMutate(request, "f", "v", pb.CompareType_EQUAL,
		filter.NewBinaryComparator(filter.NewByteArrayComparable([]byte(wanted))))
	if err != nil {
		return "", err
	}
	done, err := client.CheckAndMutate(condition)
	return fmt.Sprint(done), err
}

func both(first, second func() (string, error)) (string, error) {
	a, err := first()
	if err != nil {
		return "", err
	}
	b, err := second()
	return a + " " + b, err
}

func conditions() {
	conditional := func(qualifier, wanted, value string, op pb.CompareType) func() (string, error) {
		return func() (string, error) { return checkAndPut(qualifier, wanted, value, op) }
	}
	equal := pb.CompareType_EQUAL
	check("check.absent", func() (string, error) {
		return both(conditional("v", "", "old", equal), conditional("v", "", "old", equal))
	})
	check("check.equal", func() (string, error) {
		return both(conditional("v", "other", "new", equal), conditional("v", "old", "new", equal))
	})
	check("check.value", func() (string, error) {
		return of(func(r *hrpc.Result) string { return string(r.Cells[0].Value) }, "x-check")
	})
	check("check.delete", func() (string, error) {
		return both(func() (string, error) { return checkAndDelete("old") }, func() (string, error) { return checkAndDelete("new") })
	})
}

func threeVersions(row string) {
	for i, value := range []string{"one", "two", "three"} {
		must(put(row, one("f", "a", value), hrpc.TimestampUint64(uint64(i+1))))
	}
}

func threeColumns(row string) {
	must(put(row, values{"f": {"a": []byte("a"), "b": []byte("b")}, "g": {"c": []byte("c")}}))
}

func deletes() {
	all := hrpc.MaxVersions(10)
	column := values{"f": {"a": nil}}
	after := func(show func(*hrpc.Result) string, row string, what values, with options, read ...func(hrpc.Call) error) (string, error) {
		if err := remove(row, what, with...); err != nil {
			return "", err
		}
		return of(show, row, read...)
	}
	check("delete.latest.version", func() (string, error) {
		threeVersions("x-delete-1")
		return after(stamps, "x-delete-1", column, options{hrpc.DeleteOneVersion()}, all)
	})
	check("delete.exact.version", func() (string, error) {
		threeVersions("x-delete-2")
		return after(stamps, "x-delete-2", column, options{hrpc.DeleteOneVersion(), hrpc.TimestampUint64(2)}, all)
	})
	check("delete.column", func() (string, error) {
		threeColumns("x-delete-3")
		return after(cells, "x-delete-3", column, nil)
	})
	check("delete.column.up.to", func() (string, error) {
		threeVersions("x-delete-4")
		return after(stamps, "x-delete-4", column, options{hrpc.TimestampUint64(2)}, all)
	})
	check("delete.family", func() (string, error) {
		threeColumns("x-delete-5")
		return after(cells, "x-delete-5", values{"f": nil}, nil)
	})
	check("delete.family.version", func() (string, error) {
		must(put("x-delete-6", values{"f": {"a": []byte("2"), "b": []byte("2")}, "g": {"c": []byte("2")}}, hrpc.TimestampUint64(2)))
		must(put("x-delete-6", one("f", "a", "3"), hrpc.TimestampUint64(3)))
		return after(cells, "x-delete-6", values{"f": nil}, options{hrpc.DeleteOneVersion(), hrpc.TimestampUint64(2)}, all)
	})
	check("delete.row", func() (string, error) {
		threeColumns("x-delete-7")
		return after(withRow, "x-delete-7", nil, nil)
	})
	check("delete.then.put", func() (string, error) {
		time.Sleep(5 * time.Millisecond) // a put in the delete's own millisecond would stay masked
		must(put("x-delete-7", one("f", "a", "again")))
		return of(cells, "x-delete-7")
	})
}

func failures() {
	check("error.unknown.table", func() (string, error) {
		request, err := hrpc.NewGetStr(within(), table+"_nosuch", "a")
		if err != nil {
			return "", err
		}
		result, err := client.Get(request)
		return cells(result), err
	})
	unknown := hrpc.Families(map[string][]string{"nosuch": nil})
	check("error.unknown.family.put", func() (string, error) { return "put", put("a", one("nosuch", "a", "a")) })
	check("error.unknown.family.get", func() (string, error) { return of(cells, "a", unknown) })
	check("error.unknown.family.scan", func() (string, error) { return rows(false, "", "", unknown) })
}

func disableAndDrop() {
	name := []byte(table)
	disable := func() error { return admin.DisableTable(hrpc.NewDisableTable(within(), name)) }
	enable := func() error { return admin.EnableTable(hrpc.NewEnableTable(within(), name)) }
	drop := func() error { return admin.DeleteTable(hrpc.NewDeleteTable(within(), name)) }
	check("drop.enabled", func() (string, error) { return "dropped", drop() })
	check("enable.again", func() (string, error) { return "enabled", enable() })
	check("disable", func() (string, error) { return "true", disable() })
	check("disable.again", func() (string, error) { return "disabled", disable() })
	check("enable", func() (string, error) { return "true", enable() })
	check("enable.read", func() (string, error) {
		return of(func(r *hrpc.Result) string { return string(r.Cells[0].Value) }, "r05000")
	})
	check("drop", func() (string, error) {
		if err := errors.Join(disable(), drop()); err != nil {
			return "", err
		}
		names, err := tableNames()
		return fmt.Sprint(slices.Contains(names, table)), err
	})
}

func main() {
	zookeeper := flag.String("zookeeper", "", "host:port")
	file := flag.String("expected", "", "the answers")
	flag.StringVar(&table, "table", "", "made and dropped")
	flag.String("bootstrap", "", "not used: this client asks ZooKeeper")
	flag.Parse()
	readExpected(*file)
	logger := gohbase.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	// It gathers calls for a while: short, since most of ours come one by one.
	client = gohbase.NewClient(*zookeeper, logger, gohbase.FlushInterval(2*time.Millisecond))
	admin = gohbase.NewAdminClient(*zookeeper, logger)
	dropTable()
	ddl()
	writeAndRead()
	scans()
	versions()
	incrementsAndAppends()
	conditions()
	deletes()
	failures()
	disableAndDrop()
	for name := range mine {
		failed++
		fmt.Printf("FAIL %s expected %s got nothing: not run\n", name, expected[name])
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
