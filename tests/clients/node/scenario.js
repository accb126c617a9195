// The scenario of README.md with hbase-rpc-client 0.1.15, as far as that client goes (README.md says what is left out).
// The table must be there: the client has no DDL.
'use strict';
const fs = require('fs');
// NODE_PATH is the cache: nothing is installed beside this file.
const hbase = require('hbase-rpc-client');

const o = {};
for (let i = 2; i + 1 < process.argv.length; i += 2) o[process.argv[i]] = process.argv[i + 1];
const table = o['--table'];
const expected = new Map(), mine = new Set();
for (const line of fs.readFileSync(o['--expected'], 'utf8').split('\n')) {
  if (!line || line.startsWith('#')) continue;
  const [name, clients, answer] = line.split('\t');
  expected.set(name, answer);
  if (clients.split(',').includes('node')) mine.add(name);
}
let passed = 0, failed = 0;

async function check(name, what) {
  let actual, note = '';
  try {
    actual = String(await what());
  } catch (e) {
    actual = String(e.exceptionClassName || e.name || e).split('.').pop();
    note = ' (' + String(e.message || e).split('\n')[0].slice(0, 300) + ')';
  }
  if (!mine.delete(name)) actual = 'not a check of this client, or done twice';
  if (actual === expected.get(name)) {
    passed++;
    console.log('ok ' + name);
  } else {
    failed++;
    console.log(`FAIL ${name} expected ${expected.get(name)} got ${actual}${note}`);
  }
}

// A negative number of retries: its retry asks with closest_row_before, which HBase refuses, and so hides the first error.
const client = hbase({ zookeeperHosts: [o['--zookeeper']], callTimeout: 20000, tcpNoDelay: true, maxActionRetries: -1 });
client.on('error', e => { console.log('FAIL client ' + e); process.exit(1); });

// Every answer within a minute, or the check fails: the client's callbacks can get lost.
const call = (method, ...args) => new Promise((resolve, reject) => {
  const timer = setTimeout(() => reject(new Error('no answer')), 60000);
  client[method](table, ...args, (err, res) => { clearTimeout(timer); if (err) reject(err); else resolve(res); });
});
const get = (row, versions) => { const g = new hbase.Get(row); if (versions) g.setMaxVersions(versions); return call('get', g); };
const put = (row, family, qualifier, value, ts) => { const p = new hbase.Put(row); p.add(family, qualifier, value, ts); return call('put', p); };
const cells = r => r && r.columns && r.columns.length ? r.columns.map(c => `${c.family}:${c.qualifier}=${c.value}`).join(' ') : 'empty';
const withRow = r => r && r.row ? r.row + ' ' + cells(r) : 'empty';
const stamps = r => r && r.columns ? r.columns.map(c => `${c.timestamp}=${c.value}`).join(' ') : 'empty';
const key = i => 'r' + String(i).padStart(5, '0');
const number = b => b.readBigInt64BE(0);

const rows = (from, to, change) => new Promise((resolve, reject) => {
  const scan = client.getScanner(table, from, to);
  if (change) change(scan);
  const timer = setTimeout(() => reject(new Error('no answer')), 60000);
  scan.toArray((err, all) => {
    clearTimeout(timer);
    if (err) return reject(err);
    const keys = all.map(r => String(r.row));
    if (!keys.length) return resolve('0 rows');
    const sorted = [...new Set(keys)].sort();
    if (scan.reversed) sorted.reverse();
    resolve(`${keys.length} rows, ${keys[0]} to ${keys[keys.length - 1]}, ${keys.join() === sorted.join() ? 'in order' : 'out of order'}`);
  });
});

async function threeVersions(row) {
  for (const [ts, v] of [[1, 'one'], [2, 'two'], [3, 'three']]) await put(row, 'f', 'a', v, ts);
}
async function threeColumns(row) {
  const p = new hbase.Put(row);
  p.add('f', 'a', 'a');
  p.add('f', 'b', 'b');
  p.add('g', 'c', 'c');
  await call('put', p);
}

async function main() {
  await check('connect', async () => (await get('connect')) === null);
  await check('write.rows', async () => {
    for (let n = 0; n < 10000; n += 500) {
      const puts = [];
      for (let i = n; i < n + 500; i++) puts.push({ row: key(i), 'f:v': 'value-' + key(i).slice(1), 'g:n': String(i % 10) });
      await call('mput', puts);
    }
    return 10000;
  });
  await check('read.rows', async () => {
    let right = 0;
    for (let n = 0; n < 10000; n += 500) {
      const gets = [];
      for (let i = n; i < n + 500; i++) gets.push(key(i));
      const seen = new Set((await call('mget', gets)).map(withRow));
      for (let i = n; i < n + 500; i++) if (seen.has(`${key(i)} f:v=value-${key(i).slice(1)} g:n=${i % 10}`)) right++;
    }
    return `${right} right, ${10000 - right} wrong`;
  });
  await check('get.row', async () => withRow(await get('r01234')));
  await check('get.column', async () => withRow(await call('get', new hbase.Get('r01234').addColumn('f', 'v'))));
  await check('get.family', async () => withRow(await call('get', new hbase.Get('r01234').addColumn('g'))));
  await check('get.absent', async () => withRow(await get('absent')));
  await check('get.list', async () => {
    // Answers come by region, so they are looked up by row.
    const all = await call('mget', ['r00001', 'absent', 'r09999']);
    const of = row => withRow(all.find(r => r && r.row && String(r.row) === row));
    return `${of('r00001')}; ${of('absent')}; ${of('r09999')}`;
  });
  await check('scan.region', () => rows('r00100', 'r00190'));
  await check('scan.reversed.region', () => rows('r09999', 'r09909', s => s.setReversed()));
  await check('scan.filter.prefix', () => rows('r01200', 'r01300', s => s.setFilter({ prefixFilter: { prefix: 'r0123' } })));
  await check('scan.none', () => rows('s', 't'));

  for (const [ts, v] of [[1000, 'a'], [2000, 'b'], [3000, 'c']]) await put('x-versions', 'f', 'v', v, ts);
  await check('versions.two', async () => stamps(await get('x-versions', 2)));
  await check('versions.all', async () => stamps(await get('x-versions', 10)));
  await check('versions.time.range', async () => stamps(await call('get', new hbase.Get('x-versions').setMaxVersions(10).setTimeRange(1000, 3000))));
  await put('x-versions', 'f', 'v', 'd', 4000);
  await check('versions.fourth', async () => stamps(await get('x-versions', 10)));
  await put('x-one', 'g', 'v', 'x', 1000);
  await put('x-one', 'g', 'v', 'y', 2000);
  await check('versions.one', async () => stamps(await get('x-one', 10)));

  await check('increment.concurrent', async () => {
    await Promise.all([...Array(100)].map(() => call('incrementColumnValue', 'x-counter', 'f', 'c', 1)));
    return number((await get('x-counter')).cols['f:c'].value);
  });
  await check('increment.result', async () => number((await call('incrementColumnValue', 'x-counter', 'f', 'c', 7)).result.cell[0].value.toBuffer()));

  await put('x-check', 'f', 'v', 'old');
  const next = new hbase.Put('x-check');
  next.add('f', 'v', 'new');
  await check('check.equal', async () => (await call('checkAndPut', 'x-check', 'f', 'v', 'other', next)).processed + ' '
    + (await call('checkAndPut', 'x-check', 'f', 'v', 'old', next)).processed);
  await check('check.value', async () => (await get('x-check')).cols['f:v'].value);
  await check('check.delete', async () => (await call('checkAndDelete', 'x-check', 'f', 'v', 'old', new hbase.Delete('x-check'))).processed + ' '
    + (await call('checkAndDelete', 'x-check', 'f', 'v', 'new', new hbase.Delete('x-check'))).processed);

  const remove = async (row, change) => { const d = new hbase.Delete(row); if (change) change(d); await call('delete', d); return get(row, 10); };
  await check('delete.exact.version', async () => { await threeVersions('x-delete-2'); return stamps(await remove('x-delete-2', d => d.deleteColumn('f', 'a', 2))); });
  await check('delete.column', async () => { await threeColumns('x-delete-3'); return cells(await remove('x-delete-3', d => d.deleteColumns('f', 'a'))); });
  await check('delete.column.up.to', async () => { await threeVersions('x-delete-4'); return stamps(await remove('x-delete-4', d => d.deleteColumns('f', 'a', 2))); });
  await check('delete.family', async () => { await threeColumns('x-delete-5'); return cells(await remove('x-delete-5', d => d.deleteFamily('f'))); });
  await check('delete.row', async () => { await threeColumns('x-delete-7'); return withRow(await remove('x-delete-7')); });
  await check('delete.then.put', async () => {
    await new Promise(r => setTimeout(r, 5)); // a put in the delete's own millisecond would stay masked
    await put('x-delete-7', 'f', 'a', 'again');
    return cells(await get('x-delete-7'));
  });
  await check('multi.delete', async () => {
    for (const i of [1, 2, 3]) await put('x-multi-' + i, 'f', 'a', String(i));
    await call('mdelete', ['x-multi-1', 'x-multi-2']);
    return `${cells(await get('x-multi-1'))}; ${cells(await get('x-multi-2'))}; ${cells(await get('x-multi-3'))}`;
  });
  await check('error.unknown.family.put', () => put('a', 'nosuch', 'a', 'a'));
  await check('error.unknown.family.get', async () => cells(await call('get', new hbase.Get('a').addColumn('nosuch', 'a'))));
  for (const name of mine) { failed++; console.log(`FAIL ${name} expected ${expected.get(name)} got nothing: not run`); }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
main().catch(e => { console.log('FAIL scenario ' + (e.stack || e)); console.log(`${passed} passed, ${failed + 1} failed`); process.exit(1); });
