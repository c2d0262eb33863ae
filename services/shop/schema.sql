-- The shop's tables, in schema public of the shop database, owned by the role that runs this, all in one transaction.
--
-- Generated columns (price_with_tax, line_total) show a limit that a mirror of PostgreSQL before version 18 has: logical
-- decoding doesn't publish them, so no change event carries them, and the lake hasn't got them. `lakehouse verify` names
-- them as not compared. They can be computed from columns that are mirrored.

CREATE TYPE customer_tier AS ENUM ('basic', 'silver', 'gold');
CREATE TYPE order_status AS ENUM ('placed', 'paid', 'packed', 'shipped', 'delivered', 'cancelled');
CREATE TYPE payment_status AS ENUM ('authorised', 'captured', 'refunded');

-- Each load and each run takes the next number; with the seed it decides what they write (see history.py).
CREATE SEQUENCE workload_run;

CREATE TABLE customers (
  customer_id bigint PRIMARY KEY,
  email text NOT NULL UNIQUE,
  full_name text NOT NULL,
  tier customer_tier NOT NULL,
  tags text[] NOT NULL,
  birthday date,
  newsletter boolean NOT NULL,
  -- Large and hardly compressible: stored out of line, and not in the log when an update leaves it alone.
  profile jsonb NOT NULL,
  avatar bytea,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE addresses (
  address_id bigint PRIMARY KEY,
  customer_id bigint NOT NULL REFERENCES customers ON UPDATE CASCADE,
  label text NOT NULL,
  street text NOT NULL,
  city text NOT NULL,
  postal_code varchar(12) NOT NULL,
  country char(2) NOT NULL,
  latitude double precision,
  longitude double precision,
  valid_from date NOT NULL
);
CREATE INDEX addresses_by_customer ON addresses (customer_id);

CREATE TABLE products (
  product_id integer PRIMARY KEY,
  sku uuid NOT NULL UNIQUE,
  name text NOT NULL,
  description text,
  price numeric(12,2) NOT NULL CHECK (price >= 0),
  tax_rate numeric(4,3) NOT NULL,
  price_with_tax numeric(12,2) GENERATED ALWAYS AS (round(price * (1 + tax_rate), 2)) STORED,
  categories text[] NOT NULL,
  sizes integer[],
  weight_kg real,
  released_on date,
  discontinued boolean NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE inventory (
  warehouse_id smallint NOT NULL,
  product_id integer NOT NULL REFERENCES products ON UPDATE CASCADE,
  quantity integer NOT NULL,
  reserved integer NOT NULL,
  counted_at timestamp NOT NULL,
  PRIMARY KEY (warehouse_id, product_id)
);
CREATE INDEX inventory_by_product ON inventory (product_id);

CREATE TABLE orders (
  order_id bigint PRIMARY KEY,
  customer_id bigint REFERENCES customers ON UPDATE CASCADE,
  status order_status NOT NULL,
  total numeric(14,2) NOT NULL,
  currency char(3) NOT NULL,
  ship_to jsonb NOT NULL,
  note text,
  placed_at timestamptz NOT NULL,
  deliver_by timestamp,
  updated_at timestamptz NOT NULL
);
CREATE INDEX orders_by_customer ON orders (customer_id);

CREATE TABLE order_items (
  order_id bigint NOT NULL REFERENCES orders,
  line_no integer NOT NULL,
  product_id integer NOT NULL REFERENCES products ON UPDATE CASCADE,
  quantity integer NOT NULL CHECK (quantity > 0),
  unit_price numeric(12,2) NOT NULL,
  line_total numeric(14,2) GENERATED ALWAYS AS (quantity * unit_price) STORED,
  PRIMARY KEY (order_id, line_no)
);
CREATE INDEX order_items_by_product ON order_items (product_id);

CREATE TABLE payments (
  payment_id uuid PRIMARY KEY,
  order_id bigint NOT NULL REFERENCES orders,
  status payment_status NOT NULL,
  amount numeric(14,2) NOT NULL,
  card_hash bytea NOT NULL,
  answer jsonb NOT NULL,
  paid_at timestamptz NOT NULL
);
CREATE INDEX payments_by_order ON payments (order_id);

CREATE TABLE subscriptions (
  subscription_id bigint PRIMARY KEY,
  customer_id bigint NOT NULL REFERENCES customers ON UPDATE CASCADE,
  plan text NOT NULL,
  monthly numeric(10,2) NOT NULL,
  features text[] NOT NULL,
  starts_on date NOT NULL,
  ends_on date,
  active boolean NOT NULL
);
CREATE INDEX subscriptions_by_customer ON subscriptions (customer_id);

-- Written once, never changed. No foreign key: events outlive what they speak of.
CREATE TABLE usage_events (
  event_id bigint PRIMARY KEY,
  subscription_id bigint NOT NULL,
  kind text NOT NULL,
  seconds double precision NOT NULL,
  payload jsonb,
  occurred_at timestamptz NOT NULL
);
